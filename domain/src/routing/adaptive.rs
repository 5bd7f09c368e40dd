//! Chooses a model by the outcomes of earlier attempts in the repository (SPEC 7.1).
//!
//! A failed attempt costs its price and leaves the task to the next attempt, and finally to a person. So a
//! model is judged by its price plus the expected cost after it; the cheapest goes first. The success rate of
//! a model is drawn from its known outcomes (Thompson sampling). A model with few attempts gets a chance now
//! and then, and a model that is known to be worse hardly ever does. The draw depends only on the task, its
//! attempt and the rows, so a choice can be reproduced from them.

use ralph_shared::ids::TaskId;
use ralph_shared::sigil::Difficulty;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand_distr::{Beta, Distribution as _};

use super::strategy::Choice;

/// Known attempts before anything is learned from them.
pub const ENOUGH: f64 = 10.0;
/// Attempts are distinguished by their task's earlier failures, up to this number.
pub const MOST_FAILURES: usize = 2;
/// Price of a task that a person takes over, in attempts of the most expensive model.
pub const TAKEOVER_PRICE: f64 = 20.0;
/// Price of an hour of an attempt. US dollars.
pub const HOUR_USD: f64 = 1.0;
/// Price of a model without known attempts, relative to the next weaker one.
const DEARER: f64 = 3.0;
/// Weight of the rate of all models in the rate of one, in attempts.
const PRIOR: f64 = 2.0;

/// Outcomes of similar attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    pub model: String,
    /// The agents' rating of the task.
    pub difficulty: Option<Difficulty>,
    /// Earlier failures of their tasks that a stronger model may avoid, at most [`MOST_FAILURES`].
    pub failures: usize,
    pub attempts: f64,
    /// Number of done attempts that passed verification.
    pub done: f64,
    /// Total cost. US dollars.
    pub cost_usd: f64,
    /// Total duration. Seconds.
    pub seconds: f64,
}

/// Further facts for the choice.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub task: TaskId,
    /// Number of the task's attempt.
    pub attempt: i32,
    /// The rating of an earlier attempt.
    pub difficulty: Option<Difficulty>,
    /// The task's failures that a stronger model may avoid.
    pub failures: usize,
    /// Attempts that may fail before a person is asked, including this one.
    pub tries: usize,
}

/// Estimates for a model after a number of failures.
#[derive(Debug, Clone, Copy, Default)]
struct ModelStats {
    attempts: f64,
    done: f64,
    /// Price of an attempt with its time. US dollars.
    price: f64,
}

impl ModelStats {
    fn rate(&self, all: f64) -> f64 {
        (self.done + PRIOR * all) / (self.attempts + PRIOR)
    }
}

/// Chooses among `models`, weakest first; `None` while too little is known.
pub fn choose(models: &[&str], facts: Facts, rows: &[Outcomes]) -> Option<Choice> {
    let alike: Vec<&Outcomes> = rows
        .iter()
        .filter(|row| models.contains(&row.model.as_str()))
        .filter(|row| facts.difficulty.is_none() || row.difficulty == facts.difficulty)
        .collect();
    // Too few tasks may have this rating.
    let all: Vec<&Outcomes> = rows
        .iter()
        .filter(|row| models.contains(&row.model.as_str()))
        .collect();
    let enough = |rows: &[&Outcomes]| rows.iter().map(|row| row.attempts).sum::<f64>() >= ENOUGH;
    let rows = if enough(&alike) { alike } else { all };
    if !enough(&rows) {
        return None;
    }
    let prices = prices(models, &rows);
    let known = |failures: usize| -> Vec<ModelStats> {
        let of = |(model, price): (&&str, &f64)| {
            let mut known = ModelStats {
                price: *price,
                ..ModelStats::default()
            };
            for row in rows
                .iter()
                .filter(|row| row.model == **model && row.failures == failures)
            {
                known.attempts += row.attempts;
                known.done += row.done;
            }
            known
        };
        models.iter().zip(&prices).map(of).collect()
    };
    let mut random = StdRng::seed_from_u64(seed(facts));
    let person = TAKEOVER_PRICE * prices.iter().copied().fold(0.0, f64::max);
    // From the last try backwards: the expected cost after a failed try.
    let (mut drawn_after, mut mean_after) = (person, person);
    let mut best = (0, 0);
    let mut expected = Vec::new();
    for tried in (0..facts.tries.max(1)).rev() {
        let known = known((facts.failures + tried).min(MOST_FAILURES));
        let pooled = pooled(&known);
        let worth = |rate: &mut dyn FnMut(&ModelStats) -> f64, after: f64| -> Vec<f64> {
            known
                .iter()
                .map(|one| one.price + (1.0 - rate(one)) * after)
                .collect()
        };
        let drawn = worth(&mut |one| draw(one, pooled, &mut random), drawn_after);
        expected = worth(&mut |one| one.rate(pooled), mean_after);
        best = (least(&drawn), least(&expected));
        (drawn_after, mean_after) = (drawn[best.0], expected[best.1]);
    }
    let now = known(facts.failures.min(MOST_FAILURES));
    Some(Choice {
        model: models[best.0].to_owned(),
        reason: words(models, best, &now, &expected, facts.failures),
    })
}

/// The price of an attempt of each model with its time.
fn prices(models: &[&str], rows: &[&Outcomes]) -> Vec<f64> {
    let price = |model: &&str| {
        let own = || rows.iter().filter(|row| row.model == *model);
        let attempts: f64 = own().map(|row| row.attempts).sum();
        let price: f64 = own()
            .map(|row| row.cost_usd + row.seconds / 3_600.0 * HOUR_USD)
            .sum();
        (attempts > 0.0).then(|| price / attempts)
    };
    let known: Vec<Option<f64>> = models.iter().map(price).collect();
    // An unknown model's price follows from that of the nearest known one.
    let of = |index: usize| {
        let near = (0..known.len())
            .filter_map(|other| Some((other, known[other]?)))
            .min_by_key(|(other, _)| other.abs_diff(index));
        near.map_or(0.0, |(other, price)| {
            price * DEARER.powi(i32::try_from(index).unwrap_or(0) - i32::try_from(other).unwrap_or(0))
        })
    };
    (0..known.len())
        .map(|index| known[index].unwrap_or_else(|| of(index)))
        .collect()
}

/// The rate of all models together.
fn pooled(known: &[ModelStats]) -> f64 {
    let (done, attempts) = known.iter().fold((0.0, 0.0), |(done, attempts), one| {
        (done + one.done, attempts + one.attempts)
    });
    (done + 1.0) / (attempts + 2.0)
}

fn draw(known: &ModelStats, pooled: f64, random: &mut StdRng) -> f64 {
    let done = known.done + PRIOR * pooled;
    let not = known.attempts - known.done + PRIOR * (1.0 - pooled);
    Beta::new(done, not).map_or(pooled, |beta| beta.sample(random))
}

fn least(worth: &[f64]) -> usize {
    let index = (0..worth.len()).min_by(|one, other| worth[*one].total_cmp(&worth[*other]));
    index.unwrap_or(0)
}

fn seed(facts: Facts) -> u64 {
    let (high, low) = facts.task.0.as_u64_pair();
    high ^ low.rotate_left(17) ^ u64::from(facts.attempt.unsigned_abs()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn words(
    models: &[&str],
    (drawn, mean): (usize, usize),
    now: &[ModelStats],
    expected: &[f64],
    failures: usize,
) -> String {
    let ModelStats { attempts, done, .. } = now[drawn];
    let after = match failures {
        0 => String::new(),
        1 => " after a failure".to_owned(),
        _ => " after several failures".to_owned(),
    };
    let known = format!("{done:.0} of its {attempts:.0} attempts{after} were done");
    let cost = |index: usize| format!("{:.2} USD", expected[index]);
    if drawn == mean {
        format!("least expected cost in this repository, {}: {known}", cost(drawn))
    } else {
        format!(
            "tried to learn more about it: {known}; {} expected, {} of {}",
            cost(drawn),
            cost(mean),
            models[mean]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(model: &str, failures: usize, attempts: f64, done: f64, cost_usd: f64) -> Outcomes {
        Outcomes {
            model: model.to_owned(),
            difficulty: None,
            failures,
            attempts,
            done,
            cost_usd: cost_usd * attempts,
            seconds: 0.0,
        }
    }

    fn facts(failures: usize) -> Facts {
        Facts {
            task: TaskId(uuid::Uuid::from_u128(7)),
            attempt: 1,
            difficulty: None,
            failures,
            tries: 4 - failures.min(3),
        }
    }

    const MODELS: &[&str] = &["haiku", "sonnet", "opus"];

    #[test]
    fn the_cheapest_model_is_chosen_with_a_reason() {
        let check = |rows: &[Outcomes], facts: Facts, model: &str, reason: &str| {
            let choice = choose(MODELS, facts, rows).unwrap();
            assert_eq!((choice.model.as_str(), choice.reason.as_str()), (model, reason));
        };
        // A cheap model does nearly all tasks, and stronger ones do those that it failed.
        let rows = [
            row("haiku", 0, 400.0, 380.0, 0.05),
            row("sonnet", 0, 400.0, 390.0, 0.3),
            row("opus", 0, 400.0, 396.0, 1.0),
            row("haiku", 1, 400.0, 8.0, 0.05),
            row("sonnet", 1, 400.0, 40.0, 0.3),
            row("opus", 1, 400.0, 360.0, 1.0),
        ];
        check(
            &rows,
            facts(0),
            "haiku",
            "least expected cost in this repository, 0.13 USD: 380 of its 400 attempts were done",
        );
        check(
            &rows,
            facts(1),
            "opus",
            "least expected cost in this repository, 1.52 USD: 360 of its 400 attempts after a failure were done",
        );
    }

    #[test]
    fn nothing_is_chosen_while_too_little_is_known() {
        assert_eq!(choose(MODELS, facts(0), &[]), None);
        assert_eq!(choose(MODELS, facts(0), &[row("sonnet", 0, 9.0, 9.0, 1.0)]), None);
        // Models that are no longer configured.
        assert_eq!(choose(MODELS, facts(0), &[row("gone", 0, 99.0, 9.0, 1.0)]), None);
    }

    #[test]
    fn a_choice_is_reproducible_and_other_models_get_a_chance() {
        let rows = [row("sonnet", 0, 20.0, 18.0, 0.3)];
        let chosen = |n: u128| {
            let facts = Facts {
                task: TaskId(uuid::Uuid::from_u128(n)),
                ..facts(0)
            };
            let choice = choose(MODELS, facts, &rows).unwrap();
            assert_eq!(
                choose(MODELS, facts, &rows),
                Some(choice.clone()),
                "from the same rows"
            );
            choice.model
        };
        let all: std::collections::BTreeSet<String> = (1..200).map(|n| chosen(n << 20)).collect();
        assert!(all.len() > 1, "{all:?}");
    }
}

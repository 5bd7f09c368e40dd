//! Results of the strategies on tasks for a scripted population of models: the real decisions, on simulated
//! attempts. No server is needed, and the same seed gives the same figures.

use std::collections::{HashMap, VecDeque};

use ralph_coordinator::domain::failure::Failure;
use ralph_coordinator::domain::failure::retry::{self, NextStep, Trouble};
use ralph_coordinator::domain::routing::adaptive::{self, HOUR_USD, MOST_FAILURES, Outcomes, TAKEOVER_PRICE};
use ralph_coordinator::domain::routing::strategy::{Facts, Strategy, Tiers, choose};
use ralph_shared::ids::TaskId;
use ralph_shared::sigil::Difficulty;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use uuid::Uuid;

const RETRIES: i32 = 3;
/// Tasks of a run.
const RUN: usize = 20;
/// Number of newest attempts that `adaptive` learns from.
const KNOWN: usize = 2_000;
/// Tasks before the learned behaviour is measured.
pub const LEARNED: usize = 500;

/// A model of a population.
struct Model {
    /// Success rate of an attempt, by difficulty.
    rates: [f64; 4],
    /// Cost of an easy attempt. US dollars.
    usd: f64,
    /// Duration of an easy attempt. Seconds.
    seconds: f64,
}

/// A set of models with their success rates.
pub struct Population {
    /// Its special property.
    pub name: &'static str,
    models: [Model; 3],
}

const DIFFICULTIES: [(Difficulty, f64, f64); 4] = [
    // Difficulty, share of tasks, and cost relative to easy tasks.
    (Difficulty::Trivial, 0.15, 0.6),
    (Difficulty::Easy, 0.35, 1.0),
    (Difficulty::Moderate, 0.35, 1.6),
    (Difficulty::Hard, 0.15, 2.5),
];

const fn model(rates: [f64; 4], usd: f64, seconds: f64) -> Model {
    Model { rates, usd, seconds }
}

pub const POPULATIONS: [Population; 4] = [
    Population {
        name: "stronger is better and dearer",
        models: [
            model([0.97, 0.85, 0.45, 0.08], 0.05, 60.0),
            model([0.98, 0.94, 0.80, 0.40], 0.30, 150.0),
            model([0.99, 0.97, 0.92, 0.75], 1.20, 240.0),
        ],
    },
    Population {
        name: "the weakest does hardly anything",
        models: [
            model([0.40, 0.15, 0.02, 0.00], 0.05, 60.0),
            model([0.97, 0.92, 0.75, 0.35], 0.30, 150.0),
            model([0.99, 0.97, 0.92, 0.75], 1.20, 240.0),
        ],
    },
    Population {
        name: "the weakest does nearly everything",
        models: [
            model([0.99, 0.97, 0.93, 0.80], 0.05, 60.0),
            model([0.99, 0.97, 0.94, 0.82], 0.30, 150.0),
            model([0.99, 0.98, 0.95, 0.85], 1.20, 240.0),
        ],
    },
    Population {
        name: "only the strongest does much",
        models: [
            model([0.50, 0.20, 0.02, 0.00], 0.20, 60.0),
            model([0.60, 0.30, 0.05, 0.00], 0.40, 150.0),
            model([0.99, 0.97, 0.90, 0.70], 0.60, 200.0),
        ],
    },
];

#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The strategy's name; for a fixed one, with its model.
    pub name: String,
    /// Tasks, and those done without a person.
    pub tasks: usize,
    pub done: usize,
    pub attempts: usize,
    /// US dollars.
    pub usd: f64,
    /// Total duration of attempts. Hours.
    pub hours: f64,
    /// Total cost of tasks after the first [`LEARNED`], including time and takeovers by people. US dollars.
    pub worth_usd: f64,
}

impl Results {
    /// Share of done tasks, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.done as f64 / self.tasks as f64
    }
}

/// Runs every strategy, and every model as a fixed one, on `tasks` tasks of a population.
pub fn measure(population: &Population, tasks: usize, seed: u64) -> Vec<Results> {
    let tiers = Tiers::default();
    let names = tiers.names();
    let fixed = names.iter().map(|name| (Strategy::Fixed, Some(name.as_str())));
    let others = Strategy::ALL
        .into_iter()
        .filter(|strategy| *strategy != Strategy::Fixed);
    fixed
        .chain(others.map(|strategy| (strategy, None)))
        .map(|(strategy, model)| simulate(population, &tiers, (strategy, model), tasks, seed))
        .collect()
}

/// The best fixed model in hindsight.
pub fn best_fixed(results: &[Results]) -> &Results {
    let fixed = results.iter().filter(|one| one.name.starts_with("fixed"));
    let best = fixed.min_by(|one, other| one.worth_usd.total_cmp(&other.worth_usd));
    best.unwrap_or(&results[0])
}

/// The results of a strategy, by its name.
pub fn named<'a>(results: &'a [Results], name: &str) -> &'a Results {
    results.iter().find(|one| one.name == name).unwrap_or(&results[0])
}

struct Attempt {
    model: usize,
    failures: usize,
    difficulty: Difficulty,
    is_done: bool,
    usd: f64,
    seconds: f64,
}

/// Outcomes of the newest attempts, summed as in the store.
#[derive(Default)]
struct Memory {
    newest: VecDeque<Attempt>,
    sums: HashMap<(usize, usize, &'static str), Outcomes>,
}

impl Memory {
    fn add(&mut self, names: &[String], attempt: Attempt) {
        self.count(names, &attempt, 1.0);
        self.newest.push_back(attempt);
        if self.newest.len() > KNOWN
            && let Some(oldest) = self.newest.pop_front()
        {
            self.count(names, &oldest, -1.0);
        }
    }

    fn count(&mut self, names: &[String], one: &Attempt, sign: f64) {
        let key = (one.model, one.failures, one.difficulty.into_str());
        let sum = self.sums.entry(key).or_insert_with(|| Outcomes {
            model: names[one.model].clone(),
            difficulty: Some(one.difficulty),
            failures: one.failures,
            attempts: 0.0,
            done: 0.0,
            cost_usd: 0.0,
            seconds: 0.0,
        });
        sum.attempts += sign;
        sum.done += sign * f64::from(u8::from(one.is_done));
        sum.cost_usd += sign * one.usd;
        sum.seconds += sign * one.seconds;
    }
}

/// A simulation of a strategy on a population's tasks.
struct Simulation<'a> {
    population: &'a Population,
    tiers: &'a Tiers,
    names: Vec<String>,
    strategy: Strategy,
    model: Option<&'a str>,
    seed: u64,
    memory: Memory,
    /// Whether each of the run's newest attempts was done, and easy.
    recent: VecDeque<(bool, bool)>,
    results: Results,
}

fn simulate(
    population: &Population,
    tiers: &Tiers,
    (strategy, model): (Strategy, Option<&str>),
    tasks: usize,
    seed: u64,
) -> Results {
    let name = model.map_or(strategy.into_str().to_owned(), |model| format!("fixed {model}"));
    let mut simulation = Simulation {
        population,
        tiers,
        names: tiers.names(),
        strategy,
        model,
        seed,
        memory: Memory::default(),
        recent: VecDeque::new(),
        results: Results {
            name,
            tasks,
            ..Results::default()
        },
    };
    for task in 0..tasks {
        if task % RUN == 0 {
            simulation.recent.clear();
        }
        let worth = simulation.task(task);
        if task >= LEARNED {
            simulation.results.worth_usd += worth;
        }
    }
    simulation.results
}

impl Simulation<'_> {
    /// Tries a task until it is done, or a person takes over. Returns the cost in US dollars.
    fn task(&mut self, task: usize) -> f64 {
        let id = TaskId(Uuid::from_u128(u128::from(self.seed) << 64 | task as u128));
        let kind = self.kind(task);
        let difficulty = DIFFICULTIES[kind].0;
        let mut trouble = Trouble::default();
        let mut rated = None;
        let mut worth = 0.0;
        for attempt in 1.. {
            let facts = adaptive::Facts {
                task: id,
                attempt,
                difficulty: rated,
                failures: usize::try_from(trouble.too_hard).unwrap_or(0).min(MOST_FAILURES),
                tries: usize::try_from(RETRIES + 1 - i32::from(trouble.failures)).unwrap_or(1),
            };
            let made = self.attempt(task, kind, facts, trouble.too_hard);
            rated = Some(difficulty);
            worth += made.usd + made.seconds / 3_600.0 * HOUR_USD;
            let is_done = made.is_done;
            self.take(made);
            if is_done {
                break;
            }
            let facts = retry::Facts {
                with_changes: true,
                max_retries: RETRIES,
                base: std::time::Duration::ZERO,
                jitter: 0.0,
            };
            let next;
            (next, trouble) = retry::decide(Failure::Reported, facts, trouble);
            if next == NextStep::NeedsReview {
                let prices = self.population.models.iter().map(|model| model.usd);
                worth += TAKEOVER_PRICE * prices.fold(0.0, f64::max);
                break;
            }
        }
        worth
    }

    /// Index of a task's difficulty in [`DIFFICULTIES`].
    fn kind(&self, task: usize) -> usize {
        // The outcome of an attempt depends only on the task, the attempt and the model.
        let mut luck = StdRng::seed_from_u64(self.seed ^ (task as u64) << 20);
        let mut at = luck.random::<f64>();
        let kind = DIFFICULTIES.iter().position(|(_, share, _)| {
            at -= share;
            at < 0.0
        });
        kind.unwrap_or(DIFFICULTIES.len() - 1)
    }

    fn attempt(&self, task: usize, kind: usize, facts: adaptive::Facts, too_hard: i16) -> Attempt {
        let model = self.choose(facts, too_hard);
        let with = &self.population.models[model];
        let (difficulty, _, dearer) = DIFFICULTIES[kind];
        let seed = self.seed ^ (task as u64) << 20 ^ (facts.attempt as u64) << 8 ^ (model as u64 + 1);
        let mut luck = StdRng::seed_from_u64(seed);
        Attempt {
            model,
            failures: facts.failures,
            difficulty,
            is_done: luck.random_bool(with.rates[kind]),
            usd: with.usd * dearer,
            seconds: with.seconds * dearer,
        }
    }

    fn choose(&self, of_task: adaptive::Facts, too_hard: i16) -> usize {
        let rows: Vec<Outcomes> = match self.strategy {
            Strategy::Adaptive => self.memory.sums.values().cloned().collect(),
            _ => Vec::new(),
        };
        let recent = &self.recent;
        let done = recent.iter().filter(|(done, _)| *done).count();
        let streak = recent.iter().rev().take_while(|(done, easy)| *done && *easy);
        let facts = Facts {
            run_model: self.model,
            failures: too_hard,
            recent: (recent.len() as u32, done as u32),
            easy_streak: streak.count() as u32,
            outcomes: Some((of_task, &rows)),
            ..Facts::default()
        };
        let choice = choose(self.strategy, self.tiers, &facts);
        let chosen = choice.and_then(|choice| self.names.iter().position(|name| *name == choice.model));
        chosen.unwrap_or(0)
    }

    fn take(&mut self, made: Attempt) {
        self.results.attempts += 1;
        self.results.usd += made.usd;
        self.results.hours += made.seconds / 3_600.0;
        self.results.done += usize::from(made.is_done);
        let is_easy = matches!(made.difficulty, Difficulty::Trivial | Difficulty::Easy);
        self.recent.push_back((made.is_done, is_easy));
        if self.recent.len() > 10 {
            self.recent.pop_front();
        }
        self.memory.add(&self.names, made);
    }
}

/// The results as a table, and whether all targets are met.
pub fn report(tasks: usize, seed: u64) -> (String, bool) {
    let mut text = format!(
        "{tasks} tasks of each population, {RETRIES} retries, seed {seed}; worth: the {} after the first {LEARNED}\n",
        tasks - LEARNED
    );
    let mut holds = true;
    for population in &POPULATIONS {
        let results = measure(population, tasks, seed);
        text += &format!(
            "\n{}\n{:<18} {:>9} {:>9} {:>8} {:>9} {:>10}\n",
            population.name, "strategy", "USD", "hours", "done", "attempts", "worth USD"
        );
        for one in &results {
            text += &format!(
                "{:<18} {:>9.0} {:>9.0} {:>7.2}% {:>9} {:>10.0}\n",
                one.name,
                one.usd,
                one.hours,
                one.share() * 100.0,
                one.attempts,
                one.worth_usd
            );
        }
        let (best, adaptive) = (best_fixed(&results), named(&results, "adaptive"));
        let regret = adaptive.worth_usd / best.worth_usd - 1.0;
        let is_near = regret <= 0.1;
        let (ours, strongest) = (named(&results, "cost-optimized"), named(&results, "fixed opus"));
        let is_cheaper = ours.usd < strongest.usd;
        let loss = (strongest.share() - ours.share()) * 100.0;
        let verdict = |holds: bool| if holds { "holds" } else { "FAILS" };
        text += &format!(
            "adaptive against the best fixed one, {}: {:+.1} % (bar +10 %: {})\ncost-optimized against the strongest: {:+.1} % cost, {:+.2} points done (bar: cheaper, {} lost at most: {})\n",
            best.name,
            regret * 100.0,
            verdict(is_near),
            (ours.usd / strongest.usd - 1.0) * 100.0,
            -loss,
            LOST,
            verdict(is_cheaper && loss <= LOST),
        );
        holds &= is_near;
    }
    (text, holds)
}

/// Percentage points of the done share that chance may explain.
const LOST: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_comes_near_to_the_best_fixed_model() {
        for population in &POPULATIONS {
            let results = measure(population, 3_000, 7);
            let (best, adaptive) = (best_fixed(&results), named(&results, "adaptive"));
            assert!(
                adaptive.worth_usd <= 1.1 * best.worth_usd,
                "{}: {adaptive:?}, {best:?}",
                population.name
            );
            assert!(
                adaptive.share() >= best.share() - LOST / 100.0,
                "{adaptive:?}, {best:?}"
            );
        }
    }

    #[test]
    fn cost_optimized_is_cheaper_than_the_strongest_and_as_good() {
        let results = measure(&POPULATIONS[0], 3_000, 7);
        let (ours, strongest) = (named(&results, "cost-optimized"), named(&results, "fixed opus"));
        assert!(ours.usd < strongest.usd, "{ours:?} {strongest:?}");
        assert!(
            ours.share() >= strongest.share() - 0.005,
            "{ours:?} {strongest:?}"
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_figures() {
        assert_eq!(report(600, 3).0, report(600, 3).0);
    }
}

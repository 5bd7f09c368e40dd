//! Adjusts the weight of an entry that an agent reports to have used, when its attempt ends: by the
//! difference between the outcome and the expected outcome of such an attempt (SPEC 6.7).

use super::lift::Ended;

/// Effect of one attempt: a failure where success was certain makes ×0.74, the reverse ×1.35.
const STEP: f64 = 0.3;
/// Least loss of an entry that misled, whatever the outcome of the attempt: ×0.8.
const MISLED: f64 = 0.75;
/// The wider circle counts as much as this number of attempts in the narrower one.
const PRIOR: f64 = 4.0;

/// Circumstances of an attempt, besides memory, that influence its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Circumstances {
    /// The agent's estimate.
    pub difficulty: Option<String>,
    pub model: Option<String>,
    /// Whether it is the task's first attempt; later attempts are at tasks that proved hard.
    pub is_first: bool,
}

/// The share of such attempts that landed, among those that ended. The first circle has all attempts; then
/// come those that are as far on, as hard, and by the same model. Each circle is weighed against the wider
/// one.
pub fn expected(history: &[(Circumstances, Ended)], of: &Circumstances) -> f64 {
    let circles: [&dyn Fn(&Circumstances) -> bool; 4] = [
        &|_| true,
        &|one| one.is_first == of.is_first,
        &|one| one.is_first == of.is_first && one.difficulty == of.difficulty,
        &|one| one == of,
    ];
    circles.iter().fold(0.5, |wider, is_in| {
        let within = history.iter().filter(|(one, _)| is_in(one));
        let (landed, ended) = within.fold((0, 0), |(landed, ended), (_, more)| {
            (landed + more.landed, ended + more.ended)
        });
        (landed as f64 + PRIOR * wider) / (ended as f64 + PRIOR)
    })
}

/// The factor for the weight of an entry that helped or misled an attempt.
pub fn factor(helped: bool, landed: bool, expected: f64) -> f64 {
    let surprise = f64::from(u8::from(landed)) - expected;
    let moved = if helped { surprise } else { -MISLED.max(-surprise) };
    (STEP * moved).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(difficulty: &str, is_first: bool) -> Circumstances {
        Circumstances {
            difficulty: Some(difficulty.to_owned()),
            model: Some("sonnet".to_owned()),
            is_first,
        }
    }

    #[test]
    fn the_narrowest_circle_with_attempts_decides() {
        let ended = |landed, ended| Ended { landed, ended };
        let history = [
            (of("easy", true), ended(95, 100)),
            (of("hard", true), ended(10, 100)),
            (of("hard", false), ended(0, 2)),
        ];
        let near = |share: f64, expected: f64| (share - expected).abs() < 0.05;
        assert!(near(expected(&history, &of("easy", true)), 0.95));
        assert!(near(expected(&history, &of("hard", true)), 0.12));
        assert!(near(expected(&history, &of("trivial", true)), 0.53));
        assert!(expected(&history, &of("hard", false)) < 0.3);
        assert_eq!(expected(&[], &of("hard", false)), 0.5);
    }

    #[test]
    fn a_weight_moves_by_the_unexpected_part_of_the_outcome() {
        let check = |helped, landed, expected, is: f64| {
            let factor = factor(helped, landed, expected);
            assert!(
                (factor - is).abs() < 0.01,
                "{helped} {landed} {expected}: {factor}"
            );
        };
        check(true, true, 1.0, 1.0);
        check(true, true, 0.2, 1.27);
        check(true, false, 0.0, 1.0);
        check(true, false, 0.9, 0.76);
        check(false, true, 0.5, 0.80);
        check(false, false, 0.2, 0.80);
        check(false, false, 0.95, 0.75);
    }
}

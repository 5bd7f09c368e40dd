//! The next step after an attempt that did not land: a retry, a person, or the end (SPEC 3.3, 6.7, 7.3, 7.4).

use std::time::Duration;

use crate::failure::{Counts, Delay, Failure};
use crate::states::TaskState;

/// Longest back-off (SPEC 3.4).
pub const MAX_BACKOFF: Duration = Duration::from_secs(10 * 60);
/// Tries in a row without a needed server or part of the worker, before a person is asked.
pub const MAX_AWAY: i16 = 5;
/// Tries in a row without a command that another worker of the pool may have, before a person is asked. With
/// the pauses, they take an hour and a half.
pub const MAX_LACKS: i16 = 100;
/// Endings in a row without a sigil but with new changes that count as a failure (SPEC 3.3).
pub const MAX_NO_SIGILS: i16 = 5;
/// Deaths of a worker with only this task, before a person is asked.
pub const MAX_LOST_ALONE: i16 = 3;
/// Deaths of the worker together with other tasks, before a person is asked: a task that kills busy workers
/// must not continue forever.
pub const MAX_LOST_WITH_OTHERS: i16 = 6;
/// Conflicts in a row before a person is asked.
pub const MAX_CONFLICTS: i16 = 3;
/// Verifications without a verdict that count as a failed one (SPEC 5).
pub const MAX_VERIFY_TRIES: i16 = 2;

/// Longest pause between tries of one change of a branch.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Pause after the second failed try, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The pause of a branch operation after `tries` failed ones. They fail because the branch moved meanwhile,
/// and count as nobody's failure.
pub fn pause(tries: i32) -> Duration {
    match tries {
        ..=1 => Duration::ZERO,
        n => FIRST_PAUSE.saturating_mul(1 << (n - 2).min(20)).min(MAX_PAUSE),
    }
}

/// Why a task needs a person after this last failure, with its known reason.
pub fn without_tries(failure: Failure, reason: Option<&str>) -> String {
    match failure {
        Failure::WorkerDied => {
            format!("its worker died {MAX_LOST_ALONE} times while it ran, and nothing else was lost")
        }
        Failure::WorkersDied => format!(
            "its worker died {MAX_LOST_WITH_OTHERS} times while it ran together with other tasks; find out whether this task \
             kills workers, then retry it or let it fail"
        ),
        _ => reason.unwrap_or(failure.policy().outcome.as_str()).to_owned(),
    }
}

/// A task's counted troubles since its last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// Failures in a row.
    pub failures: i16,
    /// Failures among them that a stronger model may avoid.
    pub too_hard: i16,
    /// Endings without a sigil in a row.
    pub no_sigils: i16,
    /// Tries in a row without a needed server or part of the worker.
    pub door_failures: i16,
    /// Deaths of its worker without other tasks.
    pub lost_alone: i16,
    /// Deaths of its worker with other tasks.
    pub lost_with_others: i16,
    /// Conflicts in a row.
    pub conflicts: i16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Another attempt after this back-off.
    Again(Duration),
    /// No further attempt helps: [`without_attempts`].
    NeedsReview,
}

/// The state of a task that no further attempt helps: it waits for a person, or fails where review is off
/// (SPEC 6.7).
pub fn without_attempts(review: bool) -> TaskState {
    if review {
        TaskState::NeedsReview
    } else {
        TaskState::Failed
    }
}

/// Facts for the decision, besides the failure.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Whether the session left new changes.
    pub with_changes: bool,
    /// Number of failures that are retried.
    pub max_retries: i32,
    /// The run's pause after a first failure.
    pub base: Duration,
    /// Between 0 and 1.
    pub jitter: f64,
}

/// Decides what follows a failure, and updates the counts.
pub fn decide(failure: Failure, facts: Facts, before: Trouble) -> (NextStep, Trouble) {
    let policy = failure.policy();
    let mut after = before;
    if !matches!(policy.counts, Counts::Nothing | Counts::Away | Counts::Lack) {
        after.door_failures = 0;
    }
    // The present count, and its bound.
    let one_of = |count: &mut i16, most: i16| {
        *count = count.saturating_add(1);
        (*count, *count >= most)
    };
    let (times, is_last) = match policy.counts {
        Counts::Nothing | Counts::Verification => (1, false),
        Counts::Away => one_of(&mut after.door_failures, MAX_AWAY),
        Counts::Lack => one_of(&mut after.door_failures, MAX_LACKS),
        Counts::Conflict => one_of(&mut after.conflicts, MAX_CONFLICTS),
        Counts::DeathAlone => one_of(&mut after.lost_alone, MAX_LOST_ALONE),
        Counts::DeathWithOthers => one_of(&mut after.lost_with_others, MAX_LOST_WITH_OTHERS),
        Counts::Unfinished => {
            after.no_sigils = after.no_sigils.saturating_add(1);
            if facts.with_changes && after.no_sigils < MAX_NO_SIGILS {
                return (NextStep::Again(Duration::ZERO), after);
            }
            failed(&mut after, policy.raises_model, facts.max_retries)
        }
        Counts::Failure => failed(&mut after, policy.raises_model, facts.max_retries),
    };
    let next = match policy.delay {
        _ if is_last => NextStep::NeedsReview,
        Delay::Never => NextStep::NeedsReview,
        Delay::None => NextStep::Again(Duration::ZERO),
        Delay::Pause => NextStep::Again(backoff(facts.base, 1, facts.jitter)),
        Delay::Growing => NextStep::Again(backoff(facts.base, times, facts.jitter)),
        Delay::Elsewhere => NextStep::Again(pause(i32::from(times))),
    };
    (next, after)
}

/// Counts a failure; returns whether it was the last.
fn failed(after: &mut Trouble, raises_model: bool, max_retries: i32) -> (i16, bool) {
    after.no_sigils = 0;
    after.failures = after.failures.saturating_add(1);
    after.too_hard = after.too_hard.saturating_add(i16::from(raises_model));
    (after.failures, i32::from(after.failures) > max_retries)
}

/// `base` doubled with every failure up to [`MAX_BACKOFF`], of which the last quarter is jitter.
fn backoff(base: Duration, failures: i16, jitter: f64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(20);
    let whole = base.saturating_mul(1 << doublings).min(MAX_BACKOFF);
    whole.mul_f64(0.75 + 0.25 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(10);

    fn after(failure: Failure, with_changes: bool, before: Trouble) -> (NextStep, Trouble) {
        let facts = Facts {
            with_changes,
            max_retries: 3,
            base: BASE,
            jitter: 1.0,
        };
        decide(failure, facts, before)
    }

    #[test]
    fn a_missing_command_is_retried_for_about_90_minutes() {
        let (mut trouble, mut waited, mut tries) = (Trouble::default(), Duration::ZERO, 1);
        while let (NextStep::Again(pause), next) = after(Failure::Lack, false, trouble) {
            (trouble, waited, tries) = (next, waited + pause, tries + 1);
        }
        assert_eq!(tries, MAX_LACKS);
        assert!((80..100).contains(&(waited.as_secs() / 60)), "{waited:?}");
        assert_eq!(trouble.failures, 0);
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pauses: Vec<_> = [0, 1, 2, 3, 10, 40]
            .into_iter()
            .map(|tries| pause(tries).as_millis())
            .collect();
        assert_eq!(pauses, [0, 0, 250, 500, 60_000, 60_000]);
    }

    #[test]
    fn table() {
        use Failure::*;
        let check = |failure, changes, before, next, expected| {
            assert_eq!(
                after(failure, changes, before),
                (next, expected),
                "{failure:?} after {before:?}"
            );
        };
        let none = Trouble::default();
        let failures = |failures| Trouble { failures, ..none };
        let hard = |failures, too_hard| Trouble {
            failures,
            too_hard,
            ..none
        };
        let again = |seconds| NextStep::Again(Duration::from_secs(seconds));
        let person = NextStep::NeedsReview;
        check(Reported, true, none, again(10), hard(1, 1));
        // A crash says nothing about the model.
        check(AgentCrash, false, hard(1, 1), again(20), hard(2, 1));
        check(Gate, true, failures(2), again(40), hard(3, 1));
        check(Reported, true, failures(3), person, hard(4, 1));
        check(Blocked, true, none, person, none);
        let no_sigils = |no_sigils| Trouble { no_sigils, ..none };
        check(Unconcluded, true, none, again(0), no_sigils(1));
        check(Unconcluded, false, none, again(10), hard(1, 1));
        check(Unconcluded, true, no_sigils(4), again(10), hard(1, 1));
        check(FirstEmptyTurn, false, no_sigils(1), again(10), no_sigils(1));
        let conflicts = |failures, conflicts| Trouble {
            failures,
            conflicts,
            ..none
        };
        check(Conflict, true, failures(1), again(0), conflicts(1, 1));
        check(Conflict, true, conflicts(0, 2), person, conflicts(0, 3));
        let away = |door_failures| Trouble {
            door_failures,
            ..none
        };
        check(Away, true, none, again(10), away(1));
        check(Away, true, away(4), person, away(5));
        check(AgentMissing, false, away(3), again(10), away(3));
        check(Quota, false, failures(2), again(0), failures(2));
        check(Outage, false, none, again(10), none);
        check(Interrupted, true, failures(2), again(0), failures(2));
    }

    #[test]
    fn deaths_call_a_person_sooner_when_nothing_else_was_lost() {
        for (death, most) in [(Failure::WorkerDied, 3), (Failure::WorkersDied, 6)] {
            let mut trouble = Trouble::default();
            for n in 1..=most {
                let (next, after) = after(death, false, trouble);
                let expected = if n < most {
                    NextStep::Again(Duration::ZERO)
                } else {
                    NextStep::NeedsReview
                };
                assert_eq!(next, expected, "{death:?} {n}");
                trouble = after;
            }
            assert!(without_tries(death, None).contains(&format!("{most} times")));
        }
    }

    #[test]
    fn backoff_is_bounded_and_jittered() {
        assert_eq!(backoff(BASE, 30, 1.0), MAX_BACKOFF);
        assert_eq!(backoff(BASE, 1, 0.0), Duration::from_millis(7500));
        assert_eq!(backoff(Duration::ZERO, 5, 1.0), Duration::ZERO);
    }
}

//! What follows an attempt that did not land: again, a person, or the end (SPEC 3.3, 6.7, 7.3, 7.4).

use std::time::Duration;

use super::states::{Outcome, TaskState};

/// Longest back-off (SPEC 3.4).
pub const MAX_BACKOFF: Duration = Duration::from_secs(10 * 60);
/// So many tries in a row that a server or something of the worker's was away from call a person.
pub const MAX_AWAY: i16 = 5;
/// So many tries in a row that a worker lacked something for which another one of its pool may have call a person: an hour and a half.
pub const MAX_LACKS: i16 = 100;
/// So many endings without a sigil but with new changes count as a failure (SPEC 3.3).
pub const MAX_NO_SIGILS: i16 = 5;
/// So many losses alone on a worker call a person (DESIGN 2, leases).
pub const MAX_LOST_ALONE: i16 = 3;
/// So many deaths of its worker call a person although others were lost with it each time: one that kills busy workers must not
/// go on for ever.
pub const MAX_LOST_WITH_OTHERS: i16 = 6;
/// So many conflicts in a row call a person (issue texts on integration).
pub const MAX_CONFLICTS: i16 = 3;
/// Verify sessions without a verdict before it counts as a failed verification (SPEC 5).
pub const MAX_VERIFY_TRIES: i16 = 2;

/// Longest pause between tries of one change of a branch.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Pause after the second try that came to nothing, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The pause before a branch is changed again after so many tries that came to nothing, since it moved meanwhile: that is
/// nobody's failure.
pub fn pause(tries: i32) -> Duration {
    match tries {
        ..=1 => Duration::ZERO,
        n => FIRST_PAUSE.saturating_mul(1 << (n - 2).min(20)).min(MAX_PAUSE),
    }
}

/// How a task's worker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Nothing else was lost: the task may have killed it.
    Alone,
    /// Others were lost too: any of them may have, or none.
    WithOthers,
}

/// What follows the death of a task's worker.
pub fn after_death(death: Death, before: Trouble) -> (Next, Trouble) {
    let mut after = before;
    let (count, most) = match death {
        Death::Alone => (&mut after.lost_alone, MAX_LOST_ALONE),
        Death::WithOthers => (&mut after.lost_with_others, MAX_LOST_WITH_OTHERS),
    };
    *count = count.saturating_add(1);
    let next = if *count >= most {
        Next::NeedsReview
    } else {
        Next::Again(Duration::ZERO)
    };
    after.door_failures = 0;
    (next, after)
}

/// Why a task whose worker died so too often needs a person.
pub fn lost_too_often(death: Death) -> String {
    match death {
        Death::Alone => {
            format!("its worker died {MAX_LOST_ALONE} times while it ran, and nothing else was lost")
        }
        Death::WithOthers => format!(
            "its worker died {MAX_LOST_WITH_OTHERS} times while it ran, with others that were lost too; look whether it is the \
             one that kills workers, then retry it or let it fail"
        ),
    }
}

/// What a task has been through since it last went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// Failures in a row.
    pub failures: i16,
    /// Endings without a sigil in a row.
    pub no_sigils: i16,
    /// Tries in a row for which something of the server's or the worker's was away.
    pub door_failures: i16,
    /// Losses while no other task was lost with it.
    pub lost_alone: i16,
    /// Deaths of its worker that others were lost in too.
    pub lost_with_others: i16,
    /// Conflicts in a row.
    pub conflicts: i16,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt after this back-off.
    Again(Duration),
    /// No further attempt helps: [`without_attempts`].
    NeedsReview,
}

/// Where a task goes that no further attempt helps: to a person, or, where review is off, to its end (SPEC 6.7).
pub fn without_attempts(review: bool) -> TaskState {
    if review {
        TaskState::NeedsReview
    } else {
        TaskState::Failed
    }
}

/// Decides what follows `outcome`, and what the task has been through then.
///
/// `with_changes` says whether a session without a sigil left new changes; `jitter` is between 0 and 1.
pub fn decide(
    outcome: Outcome,
    with_changes: bool,
    max_retries: i32,
    before: Trouble,
    base: Duration,
    jitter: f64,
) -> (Next, Trouble) {
    let mut after = before;
    let counts = match outcome {
        Outcome::Failed | Outcome::Error => {
            after.no_sigils = 0;
            true
        }
        Outcome::NoSigil => {
            after.no_sigils += 1;
            !with_changes || after.no_sigils >= MAX_NO_SIGILS
        }
        Outcome::Door => {
            after.door_failures += 1;
            if after.door_failures >= MAX_AWAY {
                return (Next::NeedsReview, after);
            }
            return (Next::Again(backoff(base, after.door_failures, jitter)), after);
        }
        Outcome::Conflict => {
            after.conflicts += 1;
            if after.conflicts >= MAX_CONFLICTS {
                return (Next::NeedsReview, after);
            }
            false
        }
        _ => false,
    };
    after.door_failures = 0;
    if !counts {
        return (Next::Again(Duration::ZERO), after);
    }
    after.no_sigils = 0;
    after.failures += 1;
    if i32::from(after.failures) > max_retries {
        (Next::NeedsReview, after)
    } else {
        (Next::Again(backoff(base, after.failures, jitter)), after)
    }
}

/// The pause of a task whose agent could not be started, or whose turn counts for nothing: others go first. It is tried for as long as
/// the agent is away, whose own pauses grow; nothing counts against the task (SPEC 7.3). A failure of an account that is known to need
/// time waits for that alone.
pub fn uncounted(base: Duration, jitter: f64) -> Duration {
    backoff(base, 1, jitter)
}

/// What follows where a worker lacked what another one of its pool may have: after growing pauses somebody tries, for an hour and a half.
pub fn elsewhere(before: Trouble) -> (Next, Trouble) {
    let after = Trouble {
        door_failures: before.door_failures.saturating_add(1),
        ..before
    };
    let next = if after.door_failures >= MAX_LACKS {
        Next::NeedsReview
    } else {
        Next::Again(pause(i32::from(after.door_failures)))
    };
    (next, after)
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

    #[test]
    fn what_a_worker_lacks_is_waited_for_longer_than_any_pool_takes_to_ask_its_workers() {
        let (mut trouble, mut waited, mut tries) = (Trouble::default(), Duration::ZERO, 1);
        while let (Next::Again(pause), after) = elsewhere(trouble) {
            (trouble, waited, tries) = (after, waited + pause, tries + 1);
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

    fn check(outcome: Outcome, changes: bool, before: Trouble, next: Next, after: Trouble) {
        assert_eq!(
            decide(outcome, changes, 3, before, BASE, 1.0),
            (next, after),
            "{outcome:?} after {before:?}"
        );
    }

    #[test]
    fn table() {
        let none = Trouble::default();
        let failures = |failures| Trouble { failures, ..none };
        let again = |seconds| Next::Again(Duration::from_secs(seconds));
        check(Outcome::Failed, true, none, again(10), failures(1));
        check(Outcome::Error, false, failures(1), again(20), failures(2));
        check(Outcome::Failed, true, failures(2), again(40), failures(3));
        check(Outcome::Failed, true, failures(3), Next::NeedsReview, failures(4));
        check(
            Outcome::NoSigil,
            true,
            none,
            again(0),
            Trouble { no_sigils: 1, ..none },
        );
        check(Outcome::NoSigil, false, none, again(10), failures(1));
        check(
            Outcome::NoSigil,
            true,
            Trouble { no_sigils: 4, ..none },
            again(10),
            failures(1),
        );
        check(
            Outcome::Conflict,
            true,
            failures(1),
            again(0),
            Trouble {
                failures: 1,
                conflicts: 1,
                ..none
            },
        );
        check(
            Outcome::Conflict,
            true,
            Trouble { conflicts: 2, ..none },
            Next::NeedsReview,
            Trouble { conflicts: 3, ..none },
        );
        check(
            Outcome::Door,
            true,
            none,
            again(10),
            Trouble {
                door_failures: 1,
                ..none
            },
        );
        check(
            Outcome::Door,
            true,
            Trouble {
                door_failures: 4,
                ..none
            },
            Next::NeedsReview,
            Trouble {
                door_failures: 5,
                ..none
            },
        );
        check(Outcome::Interrupted, true, failures(2), again(0), failures(2));
    }

    #[test]
    fn deaths_call_a_person_sooner_when_nothing_else_was_lost() {
        for (death, most) in [(Death::Alone, 3), (Death::WithOthers, 6)] {
            let mut trouble = Trouble::default();
            for n in 1..=most {
                let (next, after) = after_death(death, trouble);
                let expected = if n < most {
                    Next::Again(Duration::ZERO)
                } else {
                    Next::NeedsReview
                };
                assert_eq!(next, expected, "{death:?} {n}");
                trouble = after;
            }
            assert!(lost_too_often(death).contains(&format!("{most} times")));
        }
    }

    #[test]
    fn backoff_is_bounded_and_jittered() {
        assert_eq!(backoff(BASE, 30, 1.0), MAX_BACKOFF);
        assert_eq!(backoff(BASE, 1, 0.0), Duration::from_millis(7500));
        assert_eq!(backoff(Duration::ZERO, 5, 1.0), Duration::ZERO);
    }
}

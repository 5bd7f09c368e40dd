//! Decides whether a run is over, and its outcome (SPEC 3.4, 3.5).

use ralph_shared::ids::TaskId;
use time::OffsetDateTime;

use crate::budget::Purse;
use crate::run::Run;
use crate::states::{FeatureState, RunOutcome, TaskState};
use crate::status::counts::Counts;

/// The reason of a run whose agent gave up its feature.
pub const GIVEN_UP: &str = "an agent promised that the feature can't be done";

/// Facts on a running feature.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    pub state: FeatureState,
    pub counts: Counts,
    /// Whether a dispatch is live. If so, `queued`, `following_up` and `integrating` do not matter.
    pub live: bool,
    /// Whether anything is queued, due or not.
    pub queued: bool,
    /// Whether a verification or an integration is queued.
    pub following_up: bool,
    /// Whether an integration is open that may land without a person.
    pub integrating: bool,
    /// The reason why nothing lands before a person's decision on the gate, if any.
    pub gate: Option<String>,
    /// The reason why no session of the feature may start any more, by the feature's own limit.
    pub held: Option<String>,
    /// The only task of the run, and its state.
    pub only: Option<(TaskId, TaskState)>,
    pub run: &'a Run,
    pub now: OffsetDateTime,
}

/// The next step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    GoOn,
    /// A limit is reached: end the sessions.
    EndSessions {
        /// The limit, in words.
        reason: String,
    },
    End {
        outcome: RunOutcome,
        reason: String,
    },
}

pub fn decide(facts: &Facts<'_>) -> Decision {
    if facts.state != FeatureState::Running {
        return Decision::GoOn;
    }
    let waits = facts.live || facts.integrating || facts.following_up || facts.queued;
    if let (Some((task, state)), false) = (facts.only, waits) {
        let (outcome, reason) = end_of_task(task, state, facts.gate.as_deref());
        return end(outcome, reason);
    }
    if facts.counts.open() == 0 && !facts.live && !facts.integrating {
        if let Some(gate) = &facts.gate {
            return end(RunOutcome::Blocked, gate.clone());
        }
        return all_over(facts);
    }
    if let Some(reason) = hard_limit(facts) {
        return if facts.live {
            Decision::EndSessions { reason }
        } else {
            end(RunOutcome::LimitReached, reason)
        };
    }
    if facts.live || facts.integrating || facts.following_up {
        return Decision::GoOn;
    }
    let max = facts.run.settings.max_iterations;
    let may_begin = facts.queued && max.is_none_or(|max| facts.run.iterations < max);
    if let Some(gate) = facts.gate.as_ref().filter(|_| !may_begin) {
        return end(RunOutcome::Blocked, gate.clone());
    }
    if let Some(max) = facts.run.settings.max_iterations
        && i64::from(facts.run.iterations) >= i64::from(max)
    {
        return end(
            RunOutcome::LimitReached,
            match max {
                1 => "the run used its 1 iteration".to_owned(),
                max => format!("the run used its {max} iterations"),
            },
        );
    }
    if let Some(reason) = too_little_left(facts.run).or_else(|| facts.held.clone()) {
        return end(RunOutcome::LimitReached, reason);
    }
    if facts.queued {
        return Decision::GoOn;
    }
    nothing_runs(facts)
}

/// The end of a run without open tasks.
fn all_over(facts: &Facts<'_>) -> Decision {
    let count = |state| facts.counts.of(state);
    let counts = (count(TaskState::Failed), count(TaskState::NeedsReview));
    match (counts, facts.counts.total()) {
        (_, 0) => end(RunOutcome::NoPlan, "the feature has no tasks".into()),
        ((0, 0), _) => end(RunOutcome::Complete, "every task is resolved".into()),
        ((0, n), _) => end(RunOutcome::Blocked, format!("{} for a person", tasks_wait(n))),
        ((n, _), _) => end(RunOutcome::Failure, format!("{} failed for good", tasks(n))),
    }
}

/// The end of a run whose open tasks can't be worked on.
fn nothing_runs(facts: &Facts<'_>) -> Decision {
    let count = |state| facts.counts.of(state);
    match (count(TaskState::Failed), count(TaskState::NeedsReview)) {
        (0, 0) => end(
            RunOutcome::Blocked,
            "the remaining tasks wait for cancelled ones".into(),
        ),
        (0, n) => end(
            RunOutcome::Blocked,
            format!("{} for a person, and nothing else can run", tasks_wait(n)),
        ),
        (n, _) => end(
            RunOutcome::Failure,
            format!("{} failed for good, and nothing else can run", tasks(n)),
        ),
    }
}

fn end(outcome: RunOutcome, reason: String) -> Decision {
    Decision::End { outcome, reason }
}

/// The end of a run of one task, once nothing of that task continues.
fn end_of_task(task: TaskId, state: TaskState, gate: Option<&str>) -> (RunOutcome, String) {
    let is = |what: &str| format!("task {task} {what}");
    match (state, gate) {
        (TaskState::Done | TaskState::Skipped, _) => {
            (RunOutcome::Complete, is(&format!("is {}", state.into_str())))
        }
        (TaskState::Failed, _) => (RunOutcome::Failure, is("failed for good")),
        (TaskState::Cancelled, _) => (RunOutcome::Blocked, is("is cancelled")),
        (_, Some(gate)) => (RunOutcome::Blocked, gate.to_owned()),
        (TaskState::NeedsReview, _) => (RunOutcome::Blocked, is("waits for a person")),
        (_, None) => (RunOutcome::Blocked, is("can't continue by itself")),
    }
}

/// Whether a run with queued tasks continues, whatever else is active.
pub fn goes_on_queued(state: FeatureState, counts: Counts, run: &Run, now: OffsetDateTime) -> bool {
    let facts = Facts {
        state,
        counts,
        live: false,
        queued: true,
        following_up: false,
        integrating: false,
        gate: None,
        held: None,
        only: None,
        run,
        now,
    };
    decide(&facts) == Decision::GoOn
}

/// Whether the run has used up its limits, so that it starts nothing unrequested.
pub fn used_up(facts: &Facts<'_>) -> bool {
    let max = facts.run.settings.max_iterations;
    hard_limit(facts).is_some()
        || too_little_left(facts.run).is_some()
        || max.is_some_and(|max| facts.run.iterations >= max)
}

/// Whether the rest of the run's cost limit is below a first share.
pub fn lacks_cost(run: &Run) -> bool {
    let microusd = run.purse().microusd;
    Purse {
        microusd,
        tokens: None,
    }
    .sessions()
        == 0
}

/// The same for its token limit.
pub fn lacks_tokens(run: &Run) -> bool {
    let tokens = run.purse().tokens;
    Purse {
        microusd: None,
        tokens,
    }
    .sessions()
        == 0
}

/// The limit whose rest is below a first share, in words.
fn too_little_left(run: &Run) -> Option<String> {
    let why = "the rest is below a session's first share";
    if lacks_cost(run) {
        let max = run.settings.max_cost_usd.unwrap_or_default();
        return Some(format!(
            "the run cost {} USD of {max:.2}; {why}",
            run.used_words()
        ));
    }
    if lacks_tokens(run) {
        let max = run.settings.max_tokens.unwrap_or_default();
        return Some(format!(
            "the run used {} tokens of {max}; {why}",
            run.used_tokens()
        ));
    }
    None
}

/// The reached limit of cost, tokens or time, in words.
pub fn hard_limit(facts: &Facts<'_>) -> Option<String> {
    let run = facts.run;
    let limits = &run.settings;
    if let Some(max) = limits.max_cost_usd.filter(|max| run.used_usd() >= *max) {
        return Some(format!("the run cost {} USD of {max:.2}", run.used_words()));
    }
    let tokens = run.used_tokens();
    if let Some(max) = limits.max_tokens.filter(|max| tokens >= *max) {
        return Some(format!("the run used {tokens} tokens of {max}"));
    }
    let took_ms = run.took_ms(facts.now);
    if let Some(max) = limits.max_time_ms.filter(|max| took_ms >= *max) {
        return Some(format!("the run took longer than {} s", max / 1000));
    }
    if run.stop_at_deadline && run.deadline.is_some_and(|deadline| deadline <= facts.now) {
        return Some("the deadline passed".to_owned());
    }
    None
}

fn tasks(n: i32) -> String {
    if n == 1 {
        "1 task".into()
    } else {
        format!("{n} tasks")
    }
}

fn tasks_wait(n: i32) -> String {
    if n == 1 {
        "1 task waits".into()
    } else {
        format!("{n} tasks wait")
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::ids::{FeatureId, RunId};
    use time::Duration;

    use super::*;
    use crate::run::{InFlight, RunSettings};

    fn run() -> Run {
        Run {
            id: RunId::new(),
            feature: FeatureId::new(),
            only_task: None,
            settings: RunSettings {
                max_iterations: Some(20),
                max_time_ms: Some(60_000),
                max_cost_usd: Some(2.0),
                max_tokens: Some(1000),
                ..RunSettings::default()
            },
            iterations: 0,
            succeeded: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: 0.0,
            estimated_usd: 0.0,
            subscribed: 0,
            in_flight: InFlight::default(),
            started_at: OffsetDateTime::UNIX_EPOCH,
            paused_ms: 0,
            not_before: None,
            deadline: None,
            stop_at_deadline: false,
            ended_at: None,
            outcome: None,
            reason: None,
            now: OffsetDateTime::UNIX_EPOCH,
        }
    }

    fn check(
        tasks: &[(TaskState, i32)],
        live: bool,
        queued: bool,
        change: impl Fn(&mut Run),
        expected: Option<RunOutcome>,
    ) {
        let mut counts = Counts::default();
        for (state, n) in tasks {
            counts.add(*state, *n);
        }
        let mut run = run();
        change(&mut run);
        let facts = Facts {
            state: FeatureState::Running,
            counts,
            live,
            queued,
            following_up: false,
            integrating: false,
            gate: None,
            held: None,
            only: None,
            run: &run,
            now: OffsetDateTime::UNIX_EPOCH + Duration::seconds(30),
        };
        let got = match decide(&facts) {
            Decision::End { outcome, .. } => Some(outcome),
            Decision::GoOn | Decision::EndSessions { .. } => None,
        };
        assert_eq!(got, expected, "{tasks:?} live {live} queued {queued}");
    }

    #[test]
    fn a_run_of_one_task_ends_with_that_task() {
        let task = TaskId::new();
        let check = |state, queued, expected: Option<RunOutcome>| {
            let run = run();
            let mut counts = Counts::default();
            counts.add(TaskState::Pending, 2);
            counts.add(state, 1);
            let facts = Facts {
                state: FeatureState::Running,
                counts,
                live: false,
                queued,
                following_up: false,
                integrating: false,
                gate: None,
                held: None,
                only: Some((task, state)),
                run: &run,
                now: OffsetDateTime::UNIX_EPOCH,
            };
            match (decide(&facts), expected) {
                (Decision::End { outcome, reason }, Some(expected)) => {
                    assert_eq!(outcome, expected, "{reason}");
                    assert!(reason.contains(&task.to_string()), "{reason}");
                }
                (decision, expected) => {
                    assert!(
                        decision == Decision::GoOn && expected.is_none(),
                        "{state:?}: {decision:?}"
                    );
                }
            }
        };
        check(TaskState::Pending, true, None);
        check(TaskState::Done, false, Some(RunOutcome::Complete));
        check(TaskState::Failed, false, Some(RunOutcome::Failure));
        check(TaskState::NeedsReview, false, Some(RunOutcome::Blocked));
        check(TaskState::Blocked, false, Some(RunOutcome::Blocked));
    }

    #[test]
    fn table() {
        use TaskState::*;
        let same = |_: &mut Run| {};
        check(
            &[(Done, 3), (Skipped, 1)],
            false,
            false,
            same,
            Some(RunOutcome::Complete),
        );
        check(&[], false, false, same, Some(RunOutcome::NoPlan));
        check(&[(Done, 3), (Pending, 1)], false, true, same, None);
        check(
            &[(Done, 1), (Failed, 1), (Blocked, 2)],
            false,
            false,
            same,
            Some(RunOutcome::Failure),
        );
        check(&[(Failed, 1), (InProgress, 1)], true, false, same, None);
        check(&[(Failed, 1), (Pending, 1)], false, true, same, None);
        check(
            &[(NeedsReview, 1), (Blocked, 1)],
            false,
            false,
            same,
            Some(RunOutcome::Blocked),
        );
        check(
            &[(NeedsReview, 1), (Failed, 1)],
            false,
            false,
            same,
            Some(RunOutcome::Failure),
        );
        check(
            &[(Pending, 1)],
            false,
            true,
            |run| run.iterations = 20,
            Some(RunOutcome::LimitReached),
        );
        check(&[(InProgress, 1)], true, true, |run| run.iterations = 20, None);
        // Too little is left for a new session; running ones continue.
        let nearly = |run: &mut Run| run.cost_usd = 1.96;
        check(
            &[(Pending, 1)],
            false,
            true,
            nearly,
            Some(RunOutcome::LimitReached),
        );
        check(&[(InProgress, 1)], true, true, nearly, None);
        check(
            &[(Pending, 1)],
            false,
            true,
            |run| run.in_flight.tokens = 901,
            Some(RunOutcome::LimitReached),
        );
        check(
            &[(Pending, 1)],
            false,
            true,
            |run| run.cost_usd = 2.0,
            Some(RunOutcome::LimitReached),
        );
        check(
            &[(Pending, 1)],
            false,
            true,
            |run| run.output_tokens = 1000,
            Some(RunOutcome::LimitReached),
        );
        check(
            &[(Pending, 1)],
            false,
            true,
            |run| run.started_at -= Duration::seconds(31),
            Some(RunOutcome::LimitReached),
        );
    }

    #[test]
    fn a_gate_that_fails_on_the_base_blocks_an_otherwise_idle_run() {
        let check = |queued, live, iterations, expected: Option<RunOutcome>| {
            let mut counts = Counts::default();
            for (state, n) in [
                (TaskState::NeedsReview, 1),
                (TaskState::InProgress, 2),
                (TaskState::Failed, 1),
            ] {
                counts.add(state, n);
            }
            let run = Run { iterations, ..run() };
            let decided = decide(&Facts {
                state: FeatureState::Running,
                counts,
                live,
                queued,
                following_up: false,
                integrating: false,
                gate: Some("the gate fails on the base commit abc".to_owned()),
                held: None,
                only: None,
                run: &run,
                now: OffsetDateTime::UNIX_EPOCH,
            });
            let expected = expected.map_or(Decision::GoOn, |outcome| Decision::End {
                outcome,
                reason: "the gate fails on the base commit abc".to_owned(),
            });
            assert_eq!(
                decided, expected,
                "queued {queued} live {live} after {iterations}"
            );
        };
        check(true, false, 0, None);
        check(false, true, 0, None);
        check(false, false, 0, Some(RunOutcome::Blocked));
        check(true, false, 20, Some(RunOutcome::Blocked));
    }

    #[test]
    fn other_pending_work_does_not_matter_while_a_dispatch_is_live() {
        let spent = Run {
            cost_usd: 2.0,
            ..run()
        };
        for run in [run(), spent] {
            for open in [0, 1] {
                let mut counts = Counts::default();
                counts.add(TaskState::Done, 1);
                counts.add(TaskState::Pending, open);
                let decided = (0..16).map(|bits| {
                    decide(&Facts {
                        state: FeatureState::Running,
                        counts,
                        live: true,
                        queued: bits & 1 != 0,
                        following_up: bits & 2 != 0,
                        integrating: bits & 4 != 0,
                        gate: (bits & 8 != 0).then(|| "the gate fails".to_owned()),
                        held: None,
                        only: None,
                        run: &run,
                        now: OffsetDateTime::UNIX_EPOCH,
                    })
                });
                let decided: Vec<Decision> = decided.collect();
                assert!(decided.windows(2).all(|pair| pair[0] == pair[1]), "{decided:?}");
            }
        }
    }
}

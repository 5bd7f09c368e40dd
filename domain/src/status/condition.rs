//! The condition of a feature: one word and a reason, the same for people and programs everywhere.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::budget::limit::{self, Reached};
use crate::run::Run;
use crate::run::end::GIVEN_UP;
use crate::states::{FeatureState, RunOutcome};

/// The condition of a feature in one word, for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Word {
    /// It never ran.
    Draft,
    /// It starts by itself at a set time.
    Scheduled,
    /// It waits for a person to start a run.
    Ready,
    /// It runs.
    Running,
    /// A person paused it.
    Paused,
    /// Its run ended, since something waits for a person.
    Blocked,
    /// Its run ended at a limit, or a limit prevents its start.
    Limit,
    /// A person stopped its run.
    Stopped,
    /// All of its tasks are resolved.
    Done,
    /// Its run failed.
    Failed,
    /// A person ended it.
    Cancelled,
}

impl Word {
    /// Whether the whole feature waits for a person, not only single tasks.
    pub fn needs_person(self) -> bool {
        matches!(self, Self::Ready | Self::Limit | Self::Stopped)
    }
}

/// A feature's condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Condition {
    /// The condition in one word.
    pub word: Word,
    /// The reason, and what a person has to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the feature continues by itself.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<OffsetDateTime>,
}

impl Default for Condition {
    /// The value for an answer of an earlier release, which has no condition.
    fn default() -> Self {
        Self {
            word: Word::Ready,
            reason: None,
            until: None,
        }
    }
}

impl fmt::Display for Condition {
    /// On one line, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "{}: {reason}", self.word.into_str()),
            None => f.write_str(self.word.into_str()),
        }
    }
}

/// Facts on a feature.
#[derive(Debug, Clone)]
pub struct Facts {
    pub state: FeatureState,
    pub total: i64,
    /// Tasks that are in progress, or will be in time.
    pub open: i64,
    /// Tasks that wait for a person.
    pub needs_person: i64,
    /// Tasks that failed for good.
    pub failed: i64,
    /// Whether a session runs.
    pub live: bool,
    /// Whether a task would start or land if the feature ran.
    pub can_begin: bool,
    /// Its last run, if that has ended.
    pub ended: Option<FinishedRun>,
    /// When its run, or a copy of it, starts by itself.
    pub begins_at: Option<OffsetDateTime>,
    /// No session of it starts before this time.
    pub opens: Option<OffsetDateTime>,
    /// The limit, other than its run's, that prevents any start.
    pub held: Option<String>,
}

#[derive(Debug, Clone)]
pub struct FinishedRun {
    pub outcome: RunOutcome,
    /// The limit that its last run reached, with its present value.
    pub reached: Option<Reached>,
    /// Whether an agent gave the feature up.
    pub given_up: bool,
}

impl FinishedRun {
    /// `None` while the run goes on.
    pub fn of(run: &Run) -> Option<Self> {
        Some(Self {
            outcome: run.outcome?,
            reached: limit::reached(run),
            given_up: run.reason.as_deref() == Some(GIVEN_UP),
        })
    }
}

impl Facts {
    /// Whether it waits for a run that a person starts: something would start, or nothing is open any more
    /// and no run has ended it. Another run of a feature with a failed task would only fail again, unless the
    /// task failed after the last run.
    pub fn needs_run(&self) -> bool {
        let may_start = matches!(
            self.state,
            FeatureState::Draft | FeatureState::Planned | FeatureState::Ready | FeatureState::Failed
        );
        let is_over = self.open == 0 && self.needs_person == 0;
        let would_end = is_over && (self.failed == 0 || self.state == FeatureState::Ready);
        let had_no_plan = self
            .ended
            .as_ref()
            .is_some_and(|run| run.outcome == RunOutcome::NoPlan);
        may_start
            && self.begins_at.is_none()
            && self.total > 0
            && (self.can_begin || would_end && !had_no_plan)
    }
}

pub fn of(facts: &Facts) -> Condition {
    let at = |word, reason: Option<String>| Condition {
        word,
        reason,
        until: None,
    };
    let needs = (facts.needs_person > 0).then(|| need_you(facts.needs_person));
    match facts.state {
        FeatureState::Cancelled => return at(Word::Cancelled, None),
        FeatureState::Done => return at(Word::Done, None),
        FeatureState::Paused => return at(Word::Paused, needs),
        FeatureState::Running => {
            return match (facts.opens, &facts.held) {
                _ if facts.live => at(Word::Running, needs),
                (Some(until), _) => Condition {
                    until: Some(until),
                    ..at(Word::Scheduled, needs)
                },
                (None, Some(held)) => at(Word::Limit, Some(held.clone())),
                (None, None) => at(Word::Running, needs),
            };
        }
        FeatureState::Draft | FeatureState::Planned | FeatureState::Ready | FeatureState::Failed => {}
    }
    if let Some(until) = facts.begins_at {
        return Condition {
            until: Some(until),
            ..at(Word::Scheduled, needs)
        };
    }
    match &facts.ended {
        None => at(Word::Draft, needs),
        Some(run) => after_run(facts, run, needs),
    }
}

/// The condition of an unfinished feature whose last run ended.
fn after_run(facts: &Facts, run: &FinishedRun, needs: Option<String>) -> Condition {
    let at = |word, reason: Option<String>| Condition {
        word,
        reason,
        until: None,
    };
    let limit = match run.outcome {
        RunOutcome::LimitReached => run
            .reached
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| facts.held.clone()),
        _ => None,
    };
    if let Some(limit) = limit {
        return at(Word::Limit, Some(limit));
    }
    if run.outcome == RunOutcome::Interrupted && (facts.needs_run() || facts.needs_person > 0) {
        return at(Word::Stopped, needs);
    }
    if facts.needs_run() && !run.given_up {
        let reason = match needs {
            Some(needs) => format!("needs a run, {needs}"),
            None => "needs a run".to_owned(),
        };
        return at(Word::Ready, Some(reason));
    }
    if run.given_up && facts.failed == 0 {
        return at(Word::Failed, Some("an agent gave it up".to_owned()));
    }
    if facts.failed > 0 {
        let failed = match facts.failed {
            1 => "1 task failed".to_owned(),
            n => format!("{n} tasks failed"),
        };
        let reason = needs.map_or(failed.clone(), |needs| format!("{failed}, {needs}"));
        return at(Word::Failed, Some(reason));
    }
    if needs.is_some() {
        return at(Word::Blocked, needs);
    }
    if facts.open > 0 {
        let reason = match facts.open {
            1 => "1 task waits for a cancelled one".to_owned(),
            n => format!("{n} tasks wait for cancelled ones"),
        };
        return at(Word::Blocked, Some(reason));
    }
    at(Word::Blocked, Some("its steps made no tasks".to_owned()))
}

fn need_you(tasks: i64) -> String {
    match tasks {
        1 => "1 needs you".to_owned(),
        n => format!("{n} need you"),
    }
}

/// Whether a person's decision on a task continues a run with this outcome. A run that ended at a limit, or
/// by a person, does not continue. A run without further work continues only if the person `wants_work`.
pub fn goes_on_after(outcome: RunOutcome, wants_work: bool) -> bool {
    match outcome {
        RunOutcome::Blocked | RunOutcome::Failure => true,
        RunOutcome::Complete | RunOutcome::NoPlan => wants_work,
        RunOutcome::LimitReached | RunOutcome::Interrupted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(state: FeatureState, outcome: Option<RunOutcome>) -> Facts {
        Facts {
            state,
            total: 3,
            open: 0,
            needs_person: 0,
            failed: 0,
            live: false,
            can_begin: false,
            ended: outcome.map(|outcome| FinishedRun {
                outcome,
                reached: None,
                given_up: false,
            }),
            begins_at: None,
            opens: None,
            held: None,
        }
    }

    #[test]
    fn each_condition_has_a_word_and_a_reason() {
        use {FeatureState as State, RunOutcome as Outcome};
        let check = |expected: &str, facts: Facts| assert_eq!(of(&facts).to_string(), expected, "{facts:?}");
        let ready = |outcome| facts(State::Ready, Some(outcome));
        check("draft", facts(State::Draft, None));
        check("draft", facts(State::Ready, None));
        let given = Facts {
            needs_person: 1,
            ..facts(State::Draft, None)
        };
        check("draft: 1 needs you", given);
        check("running", facts(State::Running, None));
        check("done", facts(State::Done, Some(Outcome::Complete)));
        check("cancelled", facts(State::Cancelled, Some(Outcome::Interrupted)));
        let waits = Facts {
            needs_person: 2,
            open: 1,
            ..ready(Outcome::Blocked)
        };
        check("blocked: 2 need you", waits.clone());
        for (state, expected) in [
            (State::Running, "running: 2 need you"),
            (State::Paused, "paused: 2 need you"),
        ] {
            let facts = Facts {
                state,
                ..waits.clone()
            };
            check(expected, facts);
        }
        // One of two waiting tasks was approved, and no run continues.
        let approved = Facts {
            needs_person: 1,
            can_begin: true,
            ..waits
        };
        check("ready: needs a run, 1 needs you", approved);
        let reached = |reached| Facts {
            open: 1,
            can_begin: true,
            ended: Some(FinishedRun {
                outcome: Outcome::LimitReached,
                reached,
                given_up: false,
            }),
            ..ready(Outcome::LimitReached)
        };
        let cost = Reached::Cost {
            used: 0.6,
            max: 0.5,
            about: false,
        };
        check("limit: cost 0.60 of 0.50", reached(Some(cost)));
        check("ready: needs a run", reached(None));
        let of_feature = Facts {
            held: Some("feature 0.60 USD of 0.50".to_owned()),
            ..reached(None)
        };
        check("limit: feature 0.60 USD of 0.50", of_feature);
        let of_day = Facts {
            held: Some("day 50.00 USD of 50.00".to_owned()),
            open: 1,
            ..facts(State::Running, None)
        };
        check("limit: day 50.00 USD of 50.00", of_day.clone());
        check("running", Facts { live: true, ..of_day });
        let stopped = Facts {
            open: 1,
            can_begin: true,
            ..ready(Outcome::Interrupted)
        };
        check("stopped", stopped);
        let failed = Facts {
            failed: 1,
            ..facts(State::Failed, Some(Outcome::Failure))
        };
        check("failed: 1 task failed", failed);
        // The failed task was skipped since.
        check("ready: needs a run", facts(State::Failed, Some(Outcome::Failure)));
        let given_up = Facts {
            open: 1,
            can_begin: true,
            ended: Some(FinishedRun {
                outcome: Outcome::Failure,
                reached: None,
                given_up: true,
            }),
            ..facts(State::Failed, None)
        };
        check("failed: an agent gave it up", given_up);
        let cancelled = Facts {
            open: 2,
            ..ready(Outcome::Blocked)
        };
        check("blocked: 2 tasks wait for cancelled ones", cancelled);
        check("blocked: its steps made no tasks", ready(Outcome::NoPlan));
        let later = Some(OffsetDateTime::UNIX_EPOCH);
        let scheduled = Facts {
            begins_at: later,
            ..facts(State::Ready, None)
        };
        assert_eq!(of(&scheduled).until, later);
        check("scheduled", scheduled);
        let opens = Facts {
            opens: later,
            ..facts(State::Running, None)
        };
        check("scheduled", opens);
    }

    #[test]
    fn reasons_fit_beside_a_name_at_80_columns() {
        let longest = Facts {
            failed: 1_000,
            needs_person: 1_000,
            ..facts(FeatureState::Failed, Some(RunOutcome::Failure))
        };
        assert!(of(&longest).to_string().len() <= 45, "{}", of(&longest));
    }

    #[test]
    fn a_run_is_needed_if_it_would_start_or_end_something() {
        let check = |state, can_begin, [open, failed, needs_person]: [i64; 3], expected| {
            let facts = Facts {
                open,
                failed,
                needs_person,
                can_begin,
                ..facts(state, Some(RunOutcome::Blocked))
            };
            assert_eq!(facts.needs_run(), expected, "{facts:?}");
        };
        check(FeatureState::Ready, true, [1, 0, 0], true);
        check(FeatureState::Ready, true, [1, 0, 1], true);
        check(FeatureState::Failed, true, [1, 1, 0], true);
        check(FeatureState::Running, true, [1, 0, 0], false);
        // Open tasks wait for a person's decision: a run would end at once.
        check(FeatureState::Ready, false, [1, 0, 1], false);
        check(FeatureState::Ready, false, [0, 0, 1], false);
        // The last task that waited for a person was resolved, or failed.
        check(FeatureState::Ready, false, [0, 0, 0], true);
        check(FeatureState::Ready, false, [0, 1, 0], true);
        check(FeatureState::Failed, false, [0, 1, 0], false);
        check(FeatureState::Failed, false, [0, 0, 0], true);
        check(FeatureState::Done, false, [0, 0, 0], false);
    }
}

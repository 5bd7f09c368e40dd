//! The meaning of a report: the outcome of its dispatch and the next step of its task (SPEC 3.2, 3.3, 5).
//!
//! Facts in, decision out. The fence has already decided whether the report may change anything.

use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{Difficulty, Promise, Sigils, Verdict};
use ralph_shared::wire::{EndReason, Ended, IntegrationEnd, SessionLimit, Unavailable};

use super::failure::Failure;
use super::states::Outcome;
use super::train::CheckResult;
use crate::failure::retry::MAX_VERIFY_TRIES;
use crate::failure::silence::{Meaning, OUTAGE_TASKS};

/// The next step of the dispatch's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The attempt passed: verify it.
    Verify,
    /// The attempt passed: land it on the branch, if there is one.
    Land,
    Landed,
    /// The task becomes the parent of its agent's graph.
    Split,
    /// The session's text becomes the feature's.
    Wrote,
    /// The attempt is over; the retry rules decide what follows.
    Retry,
    /// Repeat the same kind of dispatch without a new attempt: a failed verification or integration.
    Repeat,
    /// An agent must resolve a conflict.
    Resolve,
    /// A retry cannot help: a person must look.
    Ask,
}

/// A judged report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub outcome: Outcome,
    pub step: Step,
    /// The reason in words, if the outcome alone does not say it.
    pub reason: Option<String>,
    /// The reason of a failure; its policy decides the consequences.
    pub failure: Option<Failure>,
    /// Whether the agent declared that the feature cannot be done.
    pub run_failed: bool,
    /// Whether the agent's graph, or its requested changes, become tasks of the feature.
    pub grows: bool,
}

/// Facts on the attempt of a work session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptFacts {
    /// Whether an agent verifies the attempt.
    pub verify: bool,
    /// Whether the work counts only once it is pushed.
    pub needs_push: bool,
    pub pushed: bool,
    /// Verify sessions without a verdict so far.
    pub verify_tries: i16,
    /// Whether there are changes to land: the session's, and for a review also those that it started from.
    pub changed: bool,
    /// Whether the session wrote a document.
    pub wrote: bool,
}

impl Judgement {
    /// A judgement without further details.
    pub fn new(outcome: Outcome, step: Step, reason: impl Into<Option<String>>) -> Self {
        Self {
            outcome,
            step,
            reason: reason.into(),
            failure: None,
            run_failed: false,
            grows: false,
        }
    }

    pub fn failed(failure: Failure, step: Step, reason: impl Into<String>) -> Self {
        Self {
            failure: Some(failure),
            ..Self::new(failure.policy().outcome, step, reason.into())
        }
    }

    /// Whether the environment failed, not the work: another dispatch may succeed.
    pub fn is_away(&self) -> bool {
        self.failure.is_some_and(Failure::is_away)
    }

    /// Whether the failure says nothing about the task.
    pub fn is_nobodys(&self) -> bool {
        self.failure.is_some_and(Failure::is_nobodys)
    }
}

/// Judges a session's report.
pub fn session(kind: SessionKind, ended: &Ended, sigils: &Sigils, facts: AttemptFacts) -> Judgement {
    let ended_in_order = ended.is_in_order();
    if kind == SessionKind::Verify {
        return if ended_in_order {
            verified(sigils, facts)
        } else {
            verification_came_to_nothing(ended, facts)
        };
    }
    let mut judgement = match kind {
        _ if !ended_in_order => broke_off(ended),
        SessionKind::Spec | SessionKind::Plan => wrote(facts),
        SessionKind::Build => built(sigils),
        SessionKind::Review => reviewed(sigils, facts),
        // An answer that merges nothing is a valid answer.
        SessionKind::Distill => Judgement::new(Outcome::Done, Step::Landed, None),
        _ => worked(sigils, facts),
    };
    judgement.run_failed = ended_in_order && sigils.promise == Some(Promise::Failure);
    judgement
}

/// The judgement of a session with an empty turn; the given `judgement` ignores the emptiness.
pub fn empty_turn(kind: SessionKind, meaning: Meaning, judgement: Judgement) -> Judgement {
    match meaning {
        Meaning::Outage => {
            let ended = Ended::Unavailable {
                door: Unavailable::Empty,
                message: format!(
                    "the agent ended its turn without a word, a tool call or a change, as it did for other tasks before ({OUTAGE_TASKS} \
                     in a row count as an outage of its account or provider)"
                ),
            };
            session(kind, &ended, &Sigils::default(), AttemptFacts::default())
        }
        Meaning::Forgiven if kind == SessionKind::Verify => {
            Judgement::failed(Failure::FirstEmptyTurn, Step::Repeat, EMPTY)
        }
        Meaning::Forgiven | Meaning::Counts if judgement.outcome == Outcome::NoSigil => Judgement {
            failure: match meaning {
                Meaning::Forgiven => Some(Failure::FirstEmptyTurn),
                _ if kind == SessionKind::Verify => judgement.failure,
                _ => Some(Failure::EmptyTurn),
            },
            reason: Some(EMPTY.to_owned()),
            ..judgement
        },
        Meaning::Forgiven | Meaning::Counts => judgement,
    }
}

/// Sends back an attempt that adds `bulk` and that its agent considers done. The next attempt may keep these
/// files, since they are no longer new then.
pub fn bulky(kind: SessionKind, bulk: &[String], judgement: Judgement) -> Judgement {
    if kind != SessionKind::Work || judgement.outcome != Outcome::Done || bulk.is_empty() {
        return judgement;
    }
    let reason = format!(
        "it adds {}: remove files that are not part of the task, or list them in .gitignore; intended files may stay, then say why",
        named(bulk)
    );
    Judgement::failed(Failure::Bulk, Step::Retry, reason)
}

/// The reason of an empty turn.
const EMPTY: &str = "the agent ended its turn without a word, a tool call or a change";

/// A reason to doubt an attempt that its agent considers done.
pub fn doubt(calls: u32, failed: u32, facts: AttemptFacts) -> Option<String> {
    let all = match calls {
        1 => "its only tool call".to_owned(),
        n => format!("all {n} tool calls"),
    };
    (calls > 0 && failed >= calls && !facts.changed)
        .then(|| format!("it said done, but {all} failed and nothing changed"))
}

/// The step after an attempt that its agent considers done.
fn done(facts: AttemptFacts) -> Judgement {
    if facts.needs_push && !facts.pushed {
        return Judgement::failed(Failure::NotPushed, Step::Retry, "the work could not be pushed");
    }
    let step = if facts.verify { Step::Verify } else { Step::Land };
    Judgement::new(Outcome::Done, step, None)
}

fn wrote(facts: AttemptFacts) -> Judgement {
    if facts.wrote {
        Judgement::new(Outcome::Done, Step::Wrote, None)
    } else {
        let reason = "the agent ended its turn without writing the text";
        Judgement::failed(Failure::Unconcluded, Step::Retry, reason)
    }
}

fn built(sigils: &Sigils) -> Judgement {
    match sigils.verdict(SessionKind::Build) {
        Verdict::Graph => Judgement {
            grows: true,
            ..Judgement::new(Outcome::Done, Step::Landed, None)
        },
        _ => Judgement::failed(
            Failure::Unconcluded,
            Step::Retry,
            "the agent ended its turn without a task graph",
        ),
    }
}

/// A review may also have corrected something itself: its corrections are verified and land like other work
/// (SPEC 5).
fn reviewed(sigils: &Sigils, facts: AttemptFacts) -> Judgement {
    let verdict = sigils.verdict(SessionKind::Review);
    if !matches!(verdict, Verdict::ReviewPass | Verdict::ReviewChanges) {
        let reason = "the reviewer ended its turn without a verdict";
        return Judgement::failed(Failure::Unconcluded, Step::Retry, reason);
    }
    let own = if facts.changed {
        done(facts)
    } else {
        Judgement::new(Outcome::Done, Step::Landed, None)
    };
    Judgement {
        grows: verdict == Verdict::ReviewChanges && own.outcome == Outcome::Done,
        ..own
    }
}

fn worked(sigils: &Sigils, facts: AttemptFacts) -> Judgement {
    match sigils.verdict(SessionKind::Work) {
        Verdict::Done => done(facts),
        Verdict::Split => Judgement::new(Outcome::Split, Step::Split, None),
        Verdict::Failed => {
            // Only a person can bring the missing prerequisite.
            let is_blocked = sigils.difficulty == Some(Difficulty::Blocked);
            let (failure, step) = match is_blocked {
                true => (Failure::Blocked, Step::Ask),
                false => (Failure::Reported, Step::Retry),
            };
            Judgement {
                failure: Some(failure),
                ..Judgement::new(Outcome::Failed, step, sigils.why_failed().map(str::to_owned))
            }
        }
        _ => Judgement::failed(
            Failure::Unconcluded,
            Step::Retry,
            "the agent ended its turn without saying whether the task is done",
        ),
    }
}

fn verified(sigils: &Sigils, facts: AttemptFacts) -> Judgement {
    match sigils.verdict(SessionKind::Verify) {
        Verdict::VerifyPass => Judgement::new(Outcome::Passed, Step::Land, None),
        Verdict::VerifyFail => Judgement {
            failure: Some(Failure::Verification),
            ..Judgement::new(Outcome::Failed, Step::Retry, sigils.verify_fail.clone())
        },
        _ => no_verdict("the verifier ended its turn without a verdict", facts),
    }
}

fn no_verdict(reason: &str, facts: AttemptFacts) -> Judgement {
    if facts.verify_tries + 1 >= MAX_VERIFY_TRIES {
        Judgement::failed(Failure::NotVerified, Step::Retry, format!("{reason}, twice"))
    } else {
        Judgement::failed(Failure::NoVerdict, Step::Repeat, reason)
    }
}

fn verification_came_to_nothing(ended: &Ended, facts: AttemptFacts) -> Judgement {
    let broken = broke_off(ended);
    match broken.outcome {
        Outcome::Interrupted | Outcome::Lost | Outcome::Unavailable => Judgement {
            step: Step::Repeat,
            ..broken
        },
        _ => no_verdict(
            &format!("the verifier failed: {}", broken.reason.unwrap_or_default()),
            facts,
        ),
    }
}

/// Judges every end except `end_turn`.
fn broke_off(ended: &Ended) -> Judgement {
    match ended {
        Ended::Turn { stop_reason } => stopped(stop_reason),
        Ended::Told { reason } => ended_from_outside(*reason),
        Ended::Limit { limit } => retry(Failure::of_limit(*limit), limit_in_words(*limit).into()),
        Ended::AgentExited { code: Some(code), .. } => retry(
            Failure::AgentCrash,
            format!("the agent's process exited with code {code} before its turn ended"),
        ),
        Ended::AgentExited {
            signal: Some(signal), ..
        } => retry(
            Failure::AgentCrash,
            format!("the agent's process was ended by signal {signal} before its turn ended"),
        ),
        Ended::AgentExited { .. } => retry(
            Failure::AgentCrash,
            "the agent closed the connection before its turn ended".into(),
        ),
        Ended::Protocol { message } => retry(
            Failure::Protocol,
            format!("the agent answered with an error: {message}"),
        ),
        Ended::Unavailable { door, message } => retry(Failure::of_unavailable(*door), message.clone()),
        Ended::Workspace { message, away } => {
            let failure = if *away { Failure::Away } else { Failure::Workspace };
            retry(failure, format!("the workspace failed: {message}"))
        }
    }
}

fn stopped(reason: &str) -> Judgement {
    match reason {
        "max_tokens" => retry(Failure::TurnLimit, "the agent ran into its token limit".into()),
        "max_turn_requests" => retry(
            Failure::TurnLimit,
            "the agent ran into its limit of requests per turn".into(),
        ),
        "refusal" => retry(Failure::Refused, "the agent refused".into()),
        "cancelled" => retry(Failure::Protocol, "the agent cancelled its turn by itself".into()),
        other => retry(
            Failure::Protocol,
            format!("the agent stopped with the unknown reason `{other}`"),
        ),
    }
}

fn ended_from_outside(reason: EndReason) -> Judgement {
    match reason {
        EndReason::Interrupted => retry(Failure::Interrupted, "a person interrupted it".into()),
        EndReason::Drain => retry(Failure::Drained, "the worker was drained".into()),
        EndReason::RunLimit => retry(Failure::RunLimit, "the run reached a limit".into()),
        EndReason::Fenced => retry(Failure::TakenAway, "the task was taken from it".into()),
        EndReason::OutOfContact => retry(
            Failure::OutOfContact,
            "the worker was out of contact for too long".into(),
        ),
        EndReason::DiedAlone => retry(
            Failure::WorkerDied,
            "its worker died while it ran, and nothing else was lost".into(),
        ),
        EndReason::DiedWithOthers => retry(
            Failure::WorkersDied,
            "its worker died while it ran together with other tasks".into(),
        ),
        EndReason::Unanswered => Judgement::failed(
            Failure::Unanswered,
            Step::Ask,
            "nobody answered its question in time",
        ),
        EndReason::Unknown => retry(Failure::Interrupted, "it was ended from outside".into()),
    }
}

fn retry(failure: Failure, reason: String) -> Judgement {
    Judgement::failed(failure, Step::Retry, reason)
}

fn limit_in_words(limit: SessionLimit) -> &'static str {
    match limit {
        SessionLimit::Session => "the session took longer than its limit",
        SessionLimit::Idle => "the agent was silent for longer than the limit",
        SessionLimit::Output => "the agent sent more than the output limit",
        SessionLimit::ToolCalls => "the agent called more tools than the limit",
        SessionLimit::Stall => "the agent sent updates but made no progress",
        SessionLimit::Cost => "the session's share of the run's cost is used up",
        SessionLimit::Tokens => "the session's share of the run's tokens is used up",
        SessionLimit::Disk => "the session filled the worker's disk",
    }
}

/// Longest part of a conflict in the next attempt's prompt. Characters.
const MAX_HUNK_CHARS: usize = 4_000;
const NAMED_PATHS: usize = 20;
/// Tries to push or to decide before a person is asked.
pub const MAX_INTEGRATION_TRIES: i32 = 20;
/// The same while the server is unreachable: fifty minutes, as long as sessions wait for it (five times ten).
pub const MAX_AWAY_TRIES: i32 = 60;
/// The same while the repository refuses workers, or does not exist: three minutes, in which any worker of the pool
/// may try.
pub const MAX_REFUSED_TRIES: i32 = 12;

/// Facts on the integration of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IntegrationFacts {
    /// Its dispatches so far, including this one, without those that could not reach the repository.
    pub tries: i32,
    /// Earlier dispatches in a row that could not reach the repository.
    pub away: i32,
    /// Whether an earlier dispatch was allowed to push.
    pub is_decided: bool,
}

/// Judges an integration's report.
pub fn integration(end: &IntegrationEnd, facts: IntegrationFacts) -> Judgement {
    match end {
        IntegrationEnd::Merged { .. } => Judgement::new(Outcome::Merged, Step::Landed, None),
        IntegrationEnd::Updated { .. } | IntegrationEnd::Delivered { .. } | IntegrationEnd::Checked => {
            not_of_its_kind()
        }
        IntegrationEnd::Conflict { paths, hunks, .. } => {
            let hunks: String = hunks.chars().take(MAX_HUNK_CHARS).collect();
            let reason = format!(
                "it conflicts with what landed before, in {}:\n{hunks}",
                paths.join(", ")
            );
            let reason = reason.trim_end_matches([':', '\n']);
            Judgement::failed(Failure::Conflict, Step::Retry, reason)
        }
        IntegrationEnd::Rewritten { .. } => rewritten(facts),
        IntegrationEnd::Unresolved { paths } => Judgement::failed(
            Failure::ConflictMarkers,
            Step::Retry,
            format!("conflict markers are left in {}", paths.join(", ")),
        ),
        IntegrationEnd::Protected { paths } => Judgement::new(
            Outcome::Void,
            Step::Ask,
            format!("it changes protected files: {}", named(paths)),
        ),
        IntegrationEnd::GateFailed { command, output } => Judgement::failed(
            Failure::Gate,
            Step::Retry,
            format!("`{command}` failed on the rebased commit:\n{output}"),
        ),
        IntegrationEnd::Void { reason } => Judgement::new(Outcome::Void, Step::Repeat, reason.clone()),
        IntegrationEnd::Failed { message, retry, away } => {
            let again = match (*retry, *away) {
                (true, true) => facts.away + 1 < MAX_AWAY_TRIES,
                (false, true) => facts.away + 1 < MAX_REFUSED_TRIES,
                (retry, false) => retry && facts.tries < MAX_INTEGRATION_TRIES,
            };
            let step = if again { Step::Repeat } else { Step::Retry };
            let failure = if *away { Failure::Away } else { Failure::Landing };
            Judgement {
                outcome: Outcome::Error,
                ..Judgement::failed(failure, step, message)
            }
        }
        IntegrationEnd::Told { .. } => Judgement::failed(
            Failure::Interrupted,
            Step::Repeat,
            "the integration was ended from outside",
        ),
    }
}

fn rewritten(facts: IntegrationFacts) -> Judgement {
    let tries = facts.tries;
    if tries >= MAX_INTEGRATION_TRIES {
        let reason = format!("the branch moved on while it was verified, {tries} times");
        return Judgement::failed(Failure::Landing, Step::Retry, reason);
    }
    // Any worker may finish a decided integration as it is.
    if facts.is_decided {
        let reason = "it reported another patch although its push was decided";
        return Judgement::failed(Failure::Protocol, Step::Repeat, reason);
    }
    let reason = "the branch moved on, and the patch on its head differs from the verified one";
    Judgement::new(Outcome::Void, Step::Verify, reason.to_owned())
}

/// The first of some paths, and the number of the others.
fn named(paths: &[String]) -> String {
    let shown = paths
        .iter()
        .take(NAMED_PATHS)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match paths.len().saturating_sub(NAMED_PATHS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Judges the report of a branch operation without an agent.
pub fn operation(end: &IntegrationEnd) -> Judgement {
    match end {
        IntegrationEnd::Updated { .. } | IntegrationEnd::Delivered { .. } => {
            Judgement::new(Outcome::Merged, Step::Landed, None)
        }
        IntegrationEnd::Conflict {
            source: Some(_),
            source_ref: Some(_),
            ..
        } => Judgement {
            step: Step::Resolve,
            ..integration(end, IntegrationFacts::default())
        },
        IntegrationEnd::Failed {
            message,
            retry: false,
            away: false,
        } => Judgement::failed(Failure::Landing, Step::Ask, message),
        IntegrationEnd::Conflict { .. } | IntegrationEnd::GateFailed { .. } => Judgement {
            step: Step::Ask,
            ..integration(end, IntegrationFacts::default())
        },
        IntegrationEnd::Rewritten { .. } | IntegrationEnd::Checked => not_of_its_kind(),
        // Another dispatch repeats the operation.
        _ => {
            let judged = integration(end, IntegrationFacts::default());
            let step = match judged.step {
                Step::Repeat => Step::Retry,
                step => step,
            };
            // The server failed, or this worker lacks a tool: the next one may succeed.
            let failure = match end {
                IntegrationEnd::Failed { .. } => Some(Failure::Away),
                _ => judged.failure,
            };
            Judgement {
                step,
                failure,
                ..judged
            }
        }
    }
}

/// Judges the report of a gate check on a base commit.
pub fn check(end: &IntegrationEnd) -> Judgement {
    match end {
        IntegrationEnd::Checked => Judgement::new(Outcome::Passed, Step::Landed, None),
        IntegrationEnd::GateFailed { command, output } => Judgement::failed(
            Failure::GateOnBase,
            Step::Ask,
            format!("`{command}` failed on the base commit:\n{output}"),
        ),
        // The repository failed, or this worker lacks a tool: a later check or another worker may succeed.
        IntegrationEnd::Failed { message, .. } => Judgement {
            outcome: Outcome::Error,
            ..Judgement::failed(Failure::Away, Step::Retry, message)
        },
        IntegrationEnd::Told { .. } => Judgement::failed(
            Failure::Interrupted,
            Step::Retry,
            "the check was ended from outside",
        ),
        _ => not_of_its_kind(),
    }
}

/// Judges the report of a check ahead of the attempt's turn. Returns the result of the check, or `None` if it
/// must be repeated. The attempt itself stays unchanged.
pub fn checked_ahead(end: &IntegrationEnd) -> (Judgement, Option<CheckResult>) {
    let nothing = |reason: &str| Judgement::new(Outcome::Void, Step::Repeat, reason.to_owned());
    match end {
        IntegrationEnd::Checked => (
            Judgement::new(Outcome::Passed, Step::Repeat, None),
            Some(CheckResult::Passed),
        ),
        IntegrationEnd::GateFailed { command, output } => (
            nothing(&format!(
                "`{command}` failed on top of the attempts that land before it:\n{output}"
            )),
            Some(CheckResult::Failed),
        ),
        IntegrationEnd::Conflict { paths, .. } => (
            nothing(&format!(
                "it conflicts with attempts that land before it, in {}; the conflict counts once they have landed",
                paths.join(", ")
            )),
            Some(CheckResult::Conflict),
        ),
        IntegrationEnd::Told { .. } => (nothing("the check was ended from outside"), None),
        IntegrationEnd::Failed { message, .. } | IntegrationEnd::Void { reason: message } => {
            (nothing(message), Some(CheckResult::Lost))
        }
        _ => (nothing("the check gave no result"), Some(CheckResult::Lost)),
    }
}

fn not_of_its_kind() -> Judgement {
    Judgement::failed(Failure::Protocol, Step::Retry, "its report is not of its kind")
}

#[cfg(test)]
mod tests;

//! The states of features, tasks and runs, and their legal moves (SPEC 2).

use serde::{Deserialize, Serialize};

/// The state of a task (SPEC 2.2). [`MOVES`] lists the legal moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "task_state", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum TaskState {
    /// Waits for a worker, or for its time.
    Pending,
    /// A blocker is not done.
    Blocked,
    /// An attempt, its verification or its integration is under way.
    InProgress,
    /// Landed.
    Done,
    /// Failed for good.
    Failed,
    /// A person cancelled it.
    Cancelled,
    /// A person decided to go on without it; dependents run.
    Skipped,
    /// Only a person can move it on (SPEC 7.4).
    NeedsReview,
}

impl TaskState {
    /// Every state, in the order of the counters on a feature's row.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Blocked,
        Self::InProgress,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
        Self::NeedsReview,
    ];

    /// Whether dependents may run.
    pub fn satisfies_dependents(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }

    /// Whether a parent no longer waits for it.
    pub fn is_resolved(self) -> bool {
        matches!(self, Self::Done | Self::Skipped | Self::Cancelled)
    }
}

/// Every move of a task: from, to, and who makes it (SPEC 2.2). The databases of the tests refuse any other.
pub const MOVES: &[(&[TaskState], &[TaskState], &str)] = {
    use TaskState::{Blocked, Cancelled, Done, Failed, InProgress, NeedsReview, Pending, Skipped};
    &[
        (&[Pending], &[InProgress], "claim"),
        (&[InProgress], &[Done, Failed, NeedsReview], "apply"),
        // Retried, lost or interrupted; blocked if it waits for another task now.
        (&[InProgress], &[Pending, Blocked], "apply, rescue, control"),
        (&[Blocked], &[Pending], "cascade: its last blocker is resolved"),
        (&[Pending], &[Blocked], "edit: it got a blocker"),
        (
            &[Pending, Blocked, InProgress, NeedsReview],
            &[Failed],
            "cascade: a part of it failed; control: a person fails it",
        ),
        (
            &[Failed],
            &[Pending, Blocked, InProgress],
            "cascade: no part of it is failed any more",
        ),
        (
            &[Pending, Blocked],
            &[NeedsReview],
            "submit: a person is to approve it",
        ),
        (
            &[Failed, NeedsReview],
            &[Pending, Blocked, InProgress],
            "control: a person retries or approves it",
        ),
        (
            &[Cancelled, Skipped],
            &[Pending, Blocked],
            "control: a person takes it up again",
        ),
        (
            &[
                Pending,
                Blocked,
                InProgress,
                Failed,
                NeedsReview,
                Cancelled,
                Skipped,
            ],
            &[Done, Skipped, Cancelled],
            "cascade: its parts are resolved; control: a person says so",
        ),
        (&[Done], &[Cancelled], "control: a person reverts what it landed"),
    ]
};

/// The state of a feature (SPEC 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "feature_state", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FeatureState {
    /// Created, not yet planned.
    Draft,
    /// Has a plan, no tasks yet.
    Planned,
    /// Has tasks, does not run.
    Ready,
    /// Runs.
    Running,
    /// A person paused it.
    Paused,
    /// All tasks are resolved.
    Done,
    /// A task failed for good and nothing else can run.
    Failed,
    /// A person ended it.
    Cancelled,
}

/// The outcome of a run, with the exit code of commands that wait for it (SPEC 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "run_outcome", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunOutcome {
    /// Every task is resolved.
    Complete,
    /// A task failed for good and nothing else can run, or the agent promised failure.
    Failure,
    /// A limit of the run was reached.
    LimitReached,
    /// Something waits for a person and nothing else can run.
    Blocked,
    /// There was nothing to run.
    NoPlan,
    /// A person ended it.
    Interrupted,
}

impl RunOutcome {
    /// Exit code of a command that waited (SPEC 3.5).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Failure => 1,
            Self::LimitReached => 3,
            Self::Blocked => 4,
            Self::NoPlan => 5,
            Self::Interrupted => 130,
        }
    }

    /// The feature's state after the run.
    pub fn feature_state(self) -> FeatureState {
        match self {
            Self::Complete => FeatureState::Done,
            Self::Failure => FeatureState::Failed,
            Self::LimitReached | Self::Blocked | Self::NoPlan | Self::Interrupted => FeatureState::Ready,
        }
    }
}

/// The effect on siblings of a task that fails for good (SPEC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "failure_policy", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// Tasks that do not depend on it continue.
    #[default]
    Continue,
    /// Siblings are no longer ready.
    Stop,
}

/// The result of an attempt's verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "verification", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// None was requested, or there was no attempt.
    None,
    /// Under way.
    Pending,
    /// The verifier agreed.
    Passed,
    /// The verifier did not.
    Failed,
}

/// The outcome of a dispatch (SPEC 3.3 names those of attempts; the others end verify and integrate
/// dispatches).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "attempt_outcome", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent reported success.
    Done,
    /// The agent reported failure or refused, or verification failed.
    Failed,
    /// The agent ended without a result.
    NoSigil,
    /// Crash, protocol error, session limit, workspace error.
    Error,
    /// The integration conflicts.
    Conflict,
    /// The agent split the task.
    Split,
    /// A person or a drain ended it.
    Interrupted,
    /// The worker or its lease died.
    Lost,
    /// The agent or its account could not be used; does not count (SPEC 7.3).
    #[serde(rename = "door")]
    #[cfg_attr(feature = "postgres", sqlx(rename = "door"))]
    Unavailable,
    /// The verifier agreed.
    Passed,
    /// The integration landed.
    Merged,
    /// The integration has to start again.
    Void,
}

impl Outcome {
    /// The word on screens and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::NoSigil => "no_sigil",
            Self::Error => "error",
            Self::Conflict => "conflict",
            Self::Split => "split",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Unavailable => "door",
            Self::Passed => "passed",
            Self::Merged => "merged",
            Self::Void => "void",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [
            RunOutcome::Complete,
            RunOutcome::Failure,
            RunOutcome::LimitReached,
            RunOutcome::Blocked,
            RunOutcome::NoPlan,
            RunOutcome::Interrupted,
        ]
        .map(RunOutcome::exit_code);
        assert_eq!(codes, [0, 1, 3, 4, 5, 130]);
    }
}

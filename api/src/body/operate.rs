//! Changes to a feature's branches.

use ralph_shared::wire::MergeHow;
use serde::{Deserialize, Serialize};

/// Options of a feature's merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeFeature {
    /// Kind of merge.
    pub how: MergeHow,
    /// Target branch without `refs/heads/`; the feature's base branch when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub into: Option<String>,
    /// Merge what has landed so far even if tasks of the feature are not done.
    #[serde(default)]
    pub partial: bool,
}

/// Options of a landed task's revert.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevertTask {
    /// Do the task again afterwards instead of cancelling it.
    #[serde(default)]
    pub redo: bool,
    /// Revert landed tasks that depend on it as well, the last first.
    #[serde(default)]
    pub dependents: bool,
    /// The reason; shown in the task's log, and in the next prompt if the task is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The added tasks that change branches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BranchOperations {
    /// The feature.
    pub feature: String,
    /// The tasks, which run one after the other.
    pub tasks: Vec<String>,
    /// The run that was started for them. `None` when a run is under way, when the feature is paused, or when
    /// other tasks are open, whose next run includes these.
    pub run: Option<String>,
}

/// Options for removing attempts' branches from the remote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneAttempts {
    /// Only branches of attempts that ended longer ago than this. Milliseconds; the coordinator's retention
    /// when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 4_000_000_000_000_u64)]
    pub older_than_ms: Option<u64>,
    /// Only report the branches, without removing them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which refs of a feature's attempts are removed, and which stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pruning {
    /// The feature.
    pub feature: String,
    /// Refs to remove, branches without `refs/heads/`; the next free worker of the feature's pools removes
    /// them.
    pub going: Vec<String>,
    /// Refs that are old enough but stay.
    pub staying: Vec<StayingBranch>,
    /// Number of further refs whose attempts ended less than `older_than_ms` ago.
    pub recent: u64,
    /// Minimum time since the end of an attempt whose refs are removed.
    pub older_than_ms: u64,
    /// Error of the last removal if it failed; a worker tries again.
    pub error: Option<String>,
}

/// An attempt's branch that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StayingBranch {
    /// Name of the ref; a branch without `refs/heads/`.
    pub branch: String,
    /// Why it stays.
    pub why: String,
}

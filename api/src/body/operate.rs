//! Changes of a feature's branches.

use ralph_shared::wire::MergeHow;
use serde::{Deserialize, Serialize};

/// How a feature is merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeFeature {
    /// How.
    pub how: MergeHow,
    /// Into which branch, without `refs/heads/`; the one that it began from when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub into: Option<String>,
    /// Also while tasks of the feature are not done: what has landed so far.
    #[serde(default)]
    pub partial: bool,
}

/// How a landed task is taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevertTask {
    /// It is done again afterwards, rather than cancelled.
    #[serde(default)]
    pub redo: bool,
    /// Landed tasks that waited for it are taken back as well, the last first.
    #[serde(default)]
    pub dependents: bool,
    /// Why; stands in the task's log, and in the next prompt if it is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Tasks that change branches were added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BranchOperations {
    /// The feature.
    pub feature: String,
    /// The tasks that do it, one after the other.
    pub tasks: Vec<String>,
    /// The run that was started for them; `None` when one is under way, the feature is paused, or other
    /// tasks are open, with whose next run they go along.
    pub run: Option<String>,
}

/// Branches of attempts are removed from the remote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneAttempts {
    /// Only of attempts that ended longer ago. Milliseconds; the coordinator's retention when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 4_000_000_000_000_u64)]
    pub older_than_ms: Option<u64>,
    /// Only tell.
    #[serde(default)]
    pub dry_run: bool,
}

/// What becomes of the refs of a feature's attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pruning {
    /// The feature.
    pub feature: String,
    /// Those that go, branches without `refs/heads/`; the next worker of the feature's pools that is free removes them.
    pub going: Vec<String>,
    /// Those that are old enough but stay.
    pub staying: Vec<StayingBranch>,
    /// How many there are besides whose attempts ended less than `older_than_ms` ago.
    pub recent: u64,
    /// How long ago the attempts of those that go have to have ended.
    pub older_than_ms: u64,
    /// Why the last try came to nothing, if it did; it is tried again.
    pub error: Option<String>,
}

/// A branch of an attempt that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StayingBranch {
    /// Its name, of a branch without `refs/heads/`.
    pub branch: String,
    /// Why it stays.
    pub why: String,
}

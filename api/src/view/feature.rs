//! Features.

use ralph_domain::states::{FailurePolicy, FeatureState};
use ralph_domain::status::condition::Condition;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::gate::GateView;
use super::run::RunView;

/// A feature with its counters and its current or last run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FeatureView {
    pub id: String,
    pub name: String,
    /// The stored state; people see `condition` instead.
    pub status: FeatureState,
    /// The state for people, and what it needs from whom.
    #[serde(default)]
    pub condition: Condition,
    /// Address or path that workers pass to git, without a login.
    pub repo: Option<String>,
    pub repo_id: String,
    /// The folder on one machine that its tasks work in directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    pub base_ref: Option<String>,
    pub base_commit: Option<String>,
    pub branch: Option<String>,
    pub max_parallel: i32,
    pub failure_policy: FailurePolicy,
    /// Whether tasks that change the same paths run one after the other.
    #[serde(default)]
    pub avoid_conflicts: bool,
    /// Weight of its share of the slots relative to other features.
    #[serde(default = "one")]
    pub weight: i32,
    /// No task of it starts before this time.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub not_before: Option<OffsetDateTime>,
    /// Time by which it should be finished.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline: Option<OffsetDateTime>,
    /// Whether its run ends at the deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_at_deadline: bool,
    /// Time at which its schedule starts its run, or the next copy of it.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub begins_at: Option<OffsetDateTime>,
    /// The cron expression by which copies of it start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    pub tasks: TaskCounts,
    /// Whether it waits for a person to start a run: a task could start, or no task is open and no run has
    /// ended the feature.
    #[serde(default)]
    pub needs_run: bool,
    /// Its current or last run.
    pub run: Option<RunView>,
    /// The gate of that run on the base commit, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateView>,
    /// Cost of the ended sessions of all its runs. US dollars.
    #[serde(default)]
    pub cost_usd: f64,
    /// Additional cost of its live sessions so far. US dollars.
    #[serde(default)]
    pub in_flight_usd: f64,
    /// Whether some of its cost is estimated.
    #[serde(default)]
    pub estimated: bool,
    /// Why none of its tasks starts, if a limit other than its run's is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_limit: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// The weight for answers of earlier releases, which omit it.
fn one() -> i32 {
    1
}

/// Number of tasks by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskCounts {
    pub total: i64,
    /// Tasks that are ready, or wait for a back-off or for the start of a verification or an integration.
    pub pending: i64,
    pub blocked: i64,
    /// Tasks with a session or an integration under way.
    pub in_progress: i64,
    pub done: i64,
    pub failed: i64,
    pub cancelled: i64,
    pub skipped: i64,
    pub needs_review: i64,
}

impl TaskCounts {
    /// Tasks that are done, skipped or cancelled.
    pub fn resolved(&self) -> i64 {
        self.done + self.skipped + self.cancelled
    }

    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            total: self.total + other.total,
            pending: self.pending + other.pending,
            blocked: self.blocked + other.blocked,
            in_progress: self.in_progress + other.in_progress,
            done: self.done + other.done,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            skipped: self.skipped + other.skipped,
            needs_review: self.needs_review + other.needs_review,
        }
    }

    /// Tasks that are in progress or still to come.
    pub fn open(&self) -> i64 {
        self.pending + self.blocked + self.in_progress
    }
}

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
    /// As it is stored; people are told its `condition`.
    pub status: FeatureState,
    /// What it came to, and what is asked of whom.
    #[serde(default)]
    pub condition: Condition,
    /// Address or path that workers hand to git, without the login that may stand in it.
    pub repo: Option<String>,
    pub repo_id: String,
    /// The folder that its tasks work in themselves, on one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    pub base_ref: Option<String>,
    pub base_commit: Option<String>,
    pub branch: Option<String>,
    pub max_parallel: i32,
    pub failure_policy: FailurePolicy,
    /// Whether tasks that change the same run one after the other.
    #[serde(default)]
    pub avoid_conflicts: bool,
    /// Its part of the slots beside that of others.
    #[serde(default = "one")]
    pub weight: i32,
    /// Nothing of it begins before.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub not_before: Option<OffsetDateTime>,
    /// When it should be finished.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline: Option<OffsetDateTime>,
    /// Whether its run ends at the deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_at_deadline: bool,
    /// When its run begins by itself, or the next copy of it.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub begins_at: Option<OffsetDateTime>,
    /// The cron expression by whose times copies of it begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    pub tasks: TaskCounts,
    /// Whether it waits for a run that a person starts: something of it would begin, or nothing of it is open any more and no run
    /// has ended it.
    #[serde(default)]
    pub needs_run: bool,
    /// Its current or last run.
    pub run: Option<RunView>,
    /// The gate of that run on the base commit, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateView>,
    /// What all of its runs cost so far, by the sessions that ended. US dollars.
    #[serde(default)]
    pub cost_usd: f64,
    /// What its live sessions cost so far, beside that. US dollars.
    #[serde(default)]
    pub in_flight_usd: f64,
    /// Whether some of its cost is estimated.
    #[serde(default)]
    pub estimated: bool,
    /// Why nothing of it begins, where a limit beside its run's is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_limit: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// What an earlier release means that doesn't say it.
fn one() -> i32 {
    1
}

/// How many tasks are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskCounts {
    pub total: i64,
    /// Ready, or waiting for a back-off, a verification or an integration to start.
    pub pending: i64,
    pub blocked: i64,
    /// With a session or an integration under way.
    pub in_progress: i64,
    pub done: i64,
    pub failed: i64,
    pub cancelled: i64,
    pub skipped: i64,
    pub needs_review: i64,
}

impl TaskCounts {
    /// Tasks that need nothing more: done, skipped or cancelled.
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

    /// Tasks that are worked on, or would be in time.
    pub fn open(&self) -> i64 {
        self.pending + self.blocked + self.in_progress
    }
}

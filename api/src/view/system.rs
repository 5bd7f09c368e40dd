//! Overview of the whole system.

use std::collections::BTreeMap;

use ralph_domain::states::FeatureState;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::availability::WaitingView;
use super::dispatch::SessionView;
use super::feature::FeatureView;
use super::task::HeldTask;
use super::worker::WorkerView;

/// The overview that `status` shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SystemView {
    /// Release of the coordinator.
    pub version: String,
    /// Features that run, are paused or wait for a person, and the newest others.
    pub features: Vec<FeatureView>,
    /// Number of features that are not listed, counted up to 10,000.
    #[serde(default)]
    pub more_features: i64,
    /// Numbers of things that wait for a person.
    #[serde(default)]
    pub needs_person: NeedsPerson,
    /// Cost of all runs of the listed features so far. US dollars.
    #[serde(default)]
    pub cost_usd: f64,
    /// Cost of all existing features so far, by their 10,000 newest runs. US dollars.
    #[serde(default)]
    pub total_cost_usd: f64,
    /// Additional cost of live sessions so far. US dollars.
    #[serde(default)]
    pub in_flight_usd: f64,
    /// Whether some of these costs are estimated.
    #[serde(default)]
    pub estimated: bool,
    /// Live sessions, longest first.
    pub sessions: Vec<SessionView>,
    /// Number of live sessions.
    pub live_sessions: i64,
    /// Tasks that wait for tasks which change the same paths, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldTask>,
    /// Limits other than those of runs that let nothing start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by_limits: Vec<String>,
    /// Tasks that are ready, but that no worker can start now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    /// The first queued tasks that wait for their time, and the first that wait for a slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<QueuedTask>,
    /// Concurrency keys at their limits, for which further tasks wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_keys: Vec<FullKey>,
    /// The workers.
    pub workers: Vec<WorkerView>,
    /// The pools that live workers serve, or that tasks wait for.
    pub pools: BTreeMap<String, Pool>,
    /// Notices of the last day that could not be delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelivered: Option<UndeliveredView>,
}

/// A queued task, and why it waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueuedTask {
    pub task: String,
    pub title: String,
    pub waits: String,
    /// End of the wait, if known.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<OffsetDateTime>,
}

/// A concurrency key at its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FullKey {
    /// Name of the key.
    pub key: String,
    /// Most live sessions of the key.
    pub limit: i32,
    /// Number of live sessions.
    pub sessions: i64,
}

/// Notices that could not be delivered, yet or for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UndeliveredView {
    /// Number of notices, counted up to 1,000.
    pub notices: i64,
    /// Error of the newest notice.
    pub error: String,
}

/// Numbers of things that wait for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NeedsPerson {
    /// Tasks of all features with the status `needs_review`.
    pub tasks: i64,
    /// Listed features that wait as a whole: for a run, or for a higher limit.
    #[serde(default)]
    pub features: i64,
    /// Paused features; in a list of features, only those of the list.
    pub paused: i64,
    /// Agents of live workers that can't start or need a login; 0 in a list of features.
    #[serde(default)]
    pub agents: i64,
    /// Ready tasks that no worker takes or has the agent for; 0 in a list of features.
    #[serde(default)]
    pub unserved: i64,
}

impl NeedsPerson {
    /// Counts these features only.
    pub fn of(features: &[FeatureView]) -> Self {
        let count = |wanted: fn(&FeatureView) -> bool| {
            i64::try_from(features.iter().filter(|feature| wanted(feature)).count()).unwrap_or(i64::MAX)
        };
        Self {
            tasks: features.iter().map(|feature| feature.tasks.needs_review).sum(),
            features: count(|feature| feature.condition.word.needs_person()),
            paused: count(|feature| feature.status == FeatureState::Paused),
            ..Self::default()
        }
    }
}

/// Cost of the features so far. US dollars.
pub fn cost_of(features: &[FeatureView]) -> f64 {
    // The sum of nothing is a negative zero.
    features.iter().fold(0.0, |cost, feature| cost + feature.cost_usd)
}

/// A pool of workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pool {
    /// Slots of live workers.
    pub slots: i64,
    /// Ready tasks, counted up to 10,000.
    pub ready: i64,
}

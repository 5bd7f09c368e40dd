//! The whole system at a glance.

use std::collections::BTreeMap;

use ralph_domain::states::FeatureState;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::availability::WaitingView;
use super::dispatch::SessionView;
use super::feature::FeatureView;
use super::task::HeldTask;
use super::worker::WorkerView;

/// What `status` shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SystemView {
    /// Release of the coordinator that answered.
    pub version: String,
    /// Features that run or are paused, those that wait for a person, and the newest others.
    pub features: Vec<FeatureView>,
    /// Features that are not named, counted up to 10,000.
    #[serde(default)]
    pub more_features: i64,
    /// What only a person can move on.
    #[serde(default)]
    pub needs_person: NeedsPerson,
    /// What the features that are named cost so far, with all of their runs. US dollars.
    #[serde(default)]
    pub cost_usd: f64,
    /// What all features that there are cost so far, by their 10,000 newest runs. US dollars.
    #[serde(default)]
    pub total_cost_usd: f64,
    /// What live sessions cost so far, beside both. US dollars.
    #[serde(default)]
    pub in_flight_usd: f64,
    /// Whether some of these costs are estimated.
    #[serde(default)]
    pub estimated: bool,
    /// What runs now, longest first.
    pub sessions: Vec<SessionView>,
    /// How many run now.
    pub live_sessions: i64,
    /// What waits for tasks that change the same, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldTask>,
    /// Limits beside those of runs that let nothing begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by_limits: Vec<String>,
    /// Tasks that could start, but that no worker can start now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    /// Tasks of the queue that wait for their time, or for a slot, the first of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<QueuedTask>,
    /// Concurrency keys that have all their sessions: further tasks wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_keys: Vec<FullKey>,
    /// Who works.
    pub workers: Vec<WorkerView>,
    /// The pools that living workers serve, or that tasks wait for.
    pub pools: BTreeMap<String, Pool>,
    /// What of the last day's notices didn't reach whoever is to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelivered: Option<UndeliveredView>,
}

/// A task of the queue, and why it isn't worked on now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueuedTask {
    pub task: String,
    pub title: String,
    pub waits: String,
    /// Until when, where that is known.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<OffsetDateTime>,
}

/// A concurrency key that has all its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FullKey {
    /// Its name.
    pub key: String,
    /// How many sessions it may have.
    pub limit: i32,
    /// How many are live.
    pub sessions: i64,
}

/// Notices that could not be delivered, so far or for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UndeliveredView {
    /// How many, counted up to 1,000.
    pub notices: i64,
    /// What went wrong with the newest.
    pub error: String,
}

/// How much only a person can move on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NeedsPerson {
    /// Tasks of all features that have the status `needs_review`.
    pub tasks: i64,
    /// Features that are named here and wait as a whole: for a run, or for a limit to be raised.
    #[serde(default)]
    pub features: i64,
    /// Features that are paused, of all; in a list of features, of those in it.
    pub paused: i64,
    /// Agents of living workers that can't be started or want a login; in a list of features, none.
    #[serde(default)]
    pub agents: i64,
    /// Tasks that could start, but that no worker takes or has the agent for; in a list of features, none.
    #[serde(default)]
    pub unserved: i64,
}

impl NeedsPerson {
    /// Of these features alone.
    pub fn of(features: &[FeatureView]) -> Self {
        let paused = features
            .iter()
            .filter(|feature| feature.status == FeatureState::Paused);
        Self {
            tasks: features.iter().map(|feature| feature.tasks.needs_review).sum(),
            features: in_need(features),
            paused: i64::try_from(paused.count()).unwrap_or(i64::MAX),
            agents: 0,
            unserved: 0,
        }
    }
}

/// Features that wait for a person as a whole.
fn in_need(features: &[FeatureView]) -> i64 {
    let concerned = features
        .iter()
        .filter(|feature| feature.condition.word.needs_person());
    i64::try_from(concerned.count()).unwrap_or(i64::MAX)
}

/// What features cost so far. US dollars.
pub fn cost_of(features: &[FeatureView]) -> f64 {
    // The sum of nothing is a negative zero.
    features.iter().fold(0.0, |cost, feature| cost + feature.cost_usd)
}

/// One pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pool {
    /// Slots of living workers.
    pub slots: i64,
    /// Tasks that could start now, counted up to 10,000.
    pub ready: i64,
}

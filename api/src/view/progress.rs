//! How far a feature is: small and whole, so that each answer replaces the one before (DESIGN 1.5).

use ralph_domain::states::{FeatureState, Outcome};
use ralph_domain::status::next::Next;
use ralph_shared::kind::SessionKind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::availability::WaitingView;
use super::dispatch::SessionView;
use super::feature::FeatureView;
use super::task::TaskRef;
use super::train::TrainView;

/// How far a feature is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// The feature with its counters and its run.
    pub feature: FeatureView,
    /// What runs now, longest first.
    pub sessions: Vec<SessionView>,
    /// What failed for good or waits for a person.
    pub attention: Vec<TaskRef>,
    /// Its tasks that wait for nothing else of it, but that no worker can start now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    /// The last sessions of its run that came to nothing, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureView>,
    /// What waits to land on its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<TrainView>,
    /// What a person does next; none where it goes on by itself, or is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// A session that came to nothing, and when its task is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FailureView {
    pub id: String,
    pub task: String,
    pub title: String,
    pub kind: SessionKind,
    pub attempt: i32,
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// None where it isn't tried again, or was by now.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub again_at: Option<OffsetDateTime>,
}

impl Progress {
    /// Whether the run that it shows is over, or none has begun.
    pub fn is_over(&self) -> bool {
        let open = self.feature.run.as_ref().is_some_and(|run| run.outcome.is_none());
        !open && !self.is_under_way()
    }

    /// Whether it runs, or would if nobody held it.
    pub fn is_under_way(&self) -> bool {
        matches!(self.feature.status, FeatureState::Running | FeatureState::Paused)
    }
}

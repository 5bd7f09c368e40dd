//! Progress of a feature: small and complete, so that each answer replaces the previous one (DESIGN 1.5).

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

/// Progress of a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// The feature with its counters and its run.
    pub feature: FeatureView,
    /// Live sessions, longest first.
    pub sessions: Vec<SessionView>,
    /// Tasks that failed for good or wait for a person.
    pub attention: Vec<TaskRef>,
    /// Its tasks that are ready, but that no worker can start now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingView>,
    /// The last failed sessions of its run, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureView>,
    /// Attempts that wait to land on its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<TrainView>,
    /// The next step for a person; none if the feature continues by itself or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// A failed session, and when its task is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FailureView {
    pub id: String,
    pub task: String,
    pub title: String,
    pub kind: SessionKind,
    pub attempt: i32,
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// Time of the next try; none if there is none, or if it has started.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub again_at: Option<OffsetDateTime>,
}

impl Progress {
    /// Whether the run has ended, or none has started.
    pub fn is_over(&self) -> bool {
        let open = self.feature.run.as_ref().is_some_and(|run| run.outcome.is_none());
        !open && !self.is_under_way()
    }

    /// Whether the feature runs or is paused.
    pub fn is_under_way(&self) -> bool {
        matches!(self.feature.status, FeatureState::Running | FeatureState::Paused)
    }
}

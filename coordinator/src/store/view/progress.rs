//! How far a feature is: small and whole, so that each answer replaces the one before (DESIGN 1.5).

use ralph_shared::ids::FeatureId;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::dispatch::{SessionView, sessions};
use super::door::{WaitingView, waiting_of};
use super::feature::{FeatureView, features};
use super::task::{TaskRef, attention};
use crate::domain::states::FeatureState;

/// Sessions and tasks that a progress names at most; the counters tell the rest.
const NAMED: i64 = 20;

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

/// Reads it; `None` when there is no such feature. A worker that was not heard within `lease_ms` starts nothing.
pub async fn progress(
    conn: &mut PgConnection,
    id: FeatureId,
    lease_ms: i64,
) -> sqlx::Result<Option<Progress>> {
    let Some(feature) = features(conn, &[id.0]).await?.pop() else {
        return Ok(None);
    };
    let trouble = feature.tasks.failed + feature.tasks.needs_review > 0;
    let may_wait = feature.status == FeatureState::Running && feature.tasks.pending > 0;
    Ok(Some(Progress {
        waiting: if may_wait {
            waiting_of(conn, id, lease_ms).await?
        } else {
            Vec::new()
        },
        sessions: sessions(conn, Some(id), NAMED).await?,
        attention: if trouble {
            attention(conn, id, NAMED).await?
        } else {
            Vec::new()
        },
        feature,
    }))
}

//! The train of a feature: what waits to land, and what is known of it.

use ralph_domain::train::Landing;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Where a car stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CarStatus {
    Waiting,
    /// A worker has its check.
    Checking,
    /// Its check passed behind what is to land before it.
    Passed,
    /// Its check failed there: it leaves when its turn finds the same.
    Failed,
    /// It conflicts with what is to land before it, which counts once that landed.
    Conflict,
    /// It has its turn.
    Landing,
}

impl CarStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Checking => "checking",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Landing => "landing",
        }
    }
}

/// An attempt that waits to land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CarView {
    pub task: String,
    pub title: String,
    pub attempt: i32,
    pub status: CarStatus,
    /// How many it was checked behind.
    pub behind: i64,
    /// When it passed.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
}

/// What waits to land on a feature's branch, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrainView {
    pub landing: Landing,
    /// How many wait.
    pub length: i64,
    /// The first of them.
    pub cars: Vec<CarView>,
    /// How long the gate took last, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_ms: Option<i64>,
    /// How long it takes from now, if nothing fails and slots are free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_ms: Option<i64>,
    /// Checks of the feature so far, and how many of them were for nothing.
    pub checks: i64,
    pub wasted: i64,
}

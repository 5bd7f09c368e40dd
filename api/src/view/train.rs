//! The train of a feature: attempts that wait to land, and their checks.

use ralph_domain::train::Landing;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Status of a car.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CarStatus {
    Waiting,
    /// A worker checks it.
    Checking,
    /// Its check passed on top of the cars ahead.
    Passed,
    /// Its check failed on top of the cars ahead; it leaves the train if its turn has the same result.
    Failed,
    /// It conflicts with the cars ahead; the conflict counts once they have landed.
    Conflict,
    /// It is landing.
    Landing,
}

/// An attempt that waits to land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CarView {
    pub task: String,
    pub title: String,
    pub attempt: i32,
    pub status: CarStatus,
    /// Number of cars ahead of it in its check.
    pub behind: i64,
    /// Time at which the attempt passed.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
}

/// Attempts that wait to land on a feature's branch, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrainView {
    pub landing: Landing,
    /// Number of cars.
    pub length: i64,
    /// The first cars.
    pub cars: Vec<CarView>,
    /// Duration of the gate's last run, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_ms: Option<i64>,
    /// Expected time until all have landed, if nothing fails and slots are free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_ms: Option<i64>,
    /// Number of the feature's checks so far.
    pub checks: i64,
    /// Number of checks that were wasted.
    pub wasted: i64,
}

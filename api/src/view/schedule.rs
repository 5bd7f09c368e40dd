//! Schedules.

use ralph_domain::scheduling::schedule::Missed;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A schedule of a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleView {
    /// Name of the feature that it starts or copies.
    pub feature: String,
    /// Times at which it copies the feature; without it, the feature's run starts once.
    pub cron: Option<String>,
    pub time_zone: String,
    pub missed: Missed,
    /// Time of the next firing.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_at: Option<OffsetDateTime>,
    pub paused: bool,
    #[serde(with = "time::serde::rfc3339::option")]
    pub fired_at: Option<OffsetDateTime>,
    /// Name of the last feature that it created or started.
    pub made: Option<String>,
    /// Why the last firing created or started nothing.
    pub problem: Option<String>,
}

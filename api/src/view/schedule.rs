//! Schedules.

use ralph_domain::scheduling::schedule::Missed;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A schedule for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleView {
    /// Name of the feature that it begins, or copies.
    pub feature: String,
    /// When it makes a copy; without it, the feature's run begins once.
    pub cron: Option<String>,
    pub time_zone: String,
    pub missed: Missed,
    /// When it fires next.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_at: Option<OffsetDateTime>,
    pub paused: bool,
    #[serde(with = "time::serde::rfc3339::option")]
    pub fired_at: Option<OffsetDateTime>,
    /// Name of the feature that it made or began last.
    pub made: Option<String>,
    /// Why it made nothing the last time.
    pub problem: Option<String>,
}

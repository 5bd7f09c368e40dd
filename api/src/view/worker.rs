//! Workers.

use ralph_domain::text::leftover_files::size;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::availability::UnavailableAgent;

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// It was heard within a lease and takes work.
    Ready,
    /// It finishes what runs and takes nothing new, or was asked to.
    Draining,
    /// It was not heard for longer than a lease.
    Away,
}

impl WorkerStatus {
    /// The word on screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Away => "away",
        }
    }
}

/// A worker that said hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkerView {
    pub name: String,
    pub status: WorkerStatus,
    pub pools: Vec<String>,
    pub agents: Vec<String>,
    /// Those of its agents that are not started now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<UnavailableAgent>,
    /// Why it is drained, where nobody asked for that: everything failed on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_reason: Option<String>,
    /// What it keeps of build output for later checkouts, as far as it told. Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_bytes: Option<i64>,
    pub slots: i32,
    pub free_slots: i32,
    pub version: String,
    pub host: String,
    pub pid: i32,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub seen_at: OffsetDateTime,
}

impl WorkerView {
    /// What it keeps of build output, for people; `None` where it did not tell.
    pub fn warm(&self) -> Option<String> {
        Some(size(u64::try_from(self.warm_bytes?).unwrap_or(0)))
    }
}

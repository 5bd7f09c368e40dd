//! Workers.

use ralph_domain::text::leftover_files::size;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::availability::UnavailableAgent;

/// Status of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum WorkerStatus {
    /// Its last heartbeat is within a lease, and it takes work.
    Ready,
    /// It finishes its sessions and takes no new work, or was asked to drain.
    Draining,
    /// Its last heartbeat is older than a lease.
    Away,
}

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkerView {
    pub name: String,
    pub status: WorkerStatus,
    pub pools: Vec<String>,
    pub agents: Vec<String>,
    /// Its unavailable agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<UnavailableAgent>,
    /// Why it drains without a request: every session failed on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_reason: Option<String>,
    /// Size of the build output stored for later checkouts, if reported. Bytes.
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
    /// Size of its stored build output for people; `None` if it reported none.
    pub fn warm(&self) -> Option<String> {
        Some(size(u64::try_from(self.warm_bytes?).unwrap_or(0)))
    }
}

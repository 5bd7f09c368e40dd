//! Workers.

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::domain::text::leftover_files::size;
use crate::store;
use crate::store::availability::Account;
use crate::store::view::availability::{DoorView, doors};
use crate::store::worker::Worker;

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
    pub doors: Vec<DoorView>,
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

/// Every worker, by name; one that was not heard within `lease_ms` is away.
pub async fn workers(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<Vec<WorkerView>> {
    let workers = store::worker::list(conn, lease_ms).await?;
    let accounts = store::availability::not_open(conn).await?;
    Ok(shown(workers, &accounts))
}

/// Workers as they are shown, with the accounts that are closed.
pub(super) fn shown(workers: Vec<Worker>, accounts: &[Account]) -> Vec<WorkerView> {
    workers
        .into_iter()
        .map(|worker| WorkerView {
            status: match (worker.alive, worker.draining || worker.drain_requested) {
                (false, _) => WorkerStatus::Away,
                (true, true) => WorkerStatus::Draining,
                (true, false) => WorkerStatus::Ready,
            },
            doors: match worker.alive {
                true => doors(&worker, accounts),
                false => Vec::new(),
            },
            drain_reason: worker.drain_reason,
            warm_bytes: worker.warm_bytes,
            name: worker.name,
            pools: worker.pools,
            agents: worker.agents,
            slots: worker.slots,
            free_slots: worker.free_slots,
            version: worker.version,
            host: worker.host,
            pid: worker.pid,
            started_at: worker.started_at,
            seen_at: worker.seen_at,
        })
        .collect()
}

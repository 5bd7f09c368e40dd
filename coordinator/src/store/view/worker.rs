pub use ralph_api::view::{WorkerStatus, WorkerView};
use sqlx::PgConnection;

use crate::store;
use crate::store::availability::Account;
use crate::store::view::availability::unavailable_agents;
use crate::store::worker::Worker;

/// Every worker, by name; one without a heartbeat within `lease_ms` is away.
pub async fn workers(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<Vec<WorkerView>> {
    let workers = store::worker::list(conn, lease_ms).await?;
    let accounts = store::availability::not_open(conn).await?;
    Ok(shown(workers, &accounts))
}

/// Workers for people, given the accounts that are not open.
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
                true => unavailable_agents(&worker, accounts),
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

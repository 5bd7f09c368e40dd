//! What became ready gets tickets. They are published by whoever made it ready; one issuer tops them up every second to
//! min(ready, window), so that a lost ticket is replaced (DESIGN 2).

use std::collections::BTreeSet;

use sqlx::PgPool;

use super::Settings;
use crate::bus::{Bus, TICKET_WINDOW};
use crate::store;

/// Tops tickets up, if no other coordinator does so now. Returns how many were issued.
///
/// # Errors
/// When the database or the broker can't be asked; the next call makes up for it.
pub async fn top_up(
    db: &PgPool,
    bus: &Bus,
    settings: &Settings,
    known_pools: &mut BTreeSet<String>,
) -> anyhow::Result<i64> {
    let mut tx = db.begin().await?;
    if !store::ready::try_lock_issuer(&mut tx).await? {
        return Ok(0);
    }
    let pools: Vec<String> = store::worker::pools(&mut tx, settings.lease_ms())
        .await?
        .into_iter()
        .map(|(pool, _)| pool)
        .collect();
    for pool in &pools {
        if known_pools.insert(pool.clone()) {
            bus.ensure_ticket_consumer(pool).await?;
        }
    }
    let depth = store::ready::depth(&mut tx, &pools, TICKET_WINDOW).await?;
    if depth.iter().all(|(_, ready)| *ready == 0) {
        return Ok(0);
    }
    let waiting = bus.waiting_tickets().await?;
    if waiting.consumers < pools.len() {
        // The store was wiped since they were made.
        known_pools.clear();
    }
    let mut issued = 0;
    for (pool, ready) in depth {
        let missing = ready - waiting.by_pool.get(&pool).copied().unwrap_or(0);
        if missing > 0 {
            bus.issue_tickets(&pool, missing).await;
            issued += missing;
        }
    }
    tx.commit().await?;
    Ok(issued)
}

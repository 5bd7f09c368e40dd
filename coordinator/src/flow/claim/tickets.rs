//! Tickets for ready tasks. The step that makes a task ready publishes one at once. One issuer tops them up
//! every second to min(ready, room, window). So lost tickets are replaced, and no slot asks in vain for a
//! feature without room.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{PgConnection, PgPool};

use crate::bus::{Bus, TICKET_WINDOW};
use crate::domain::scheduling::availability::BreakerState;
use crate::domain::scheduling::capability::{Accounts, Agents, Capability};
use crate::flow::{Settings, claim::selection};
use crate::store;

/// Tops tickets up, unless another coordinator does so now. Returns the number of new tickets.
///
/// # Errors
/// When the database or the broker is away; the next call makes up for it.
pub async fn top_up(
    db: &PgPool,
    bus: &Bus,
    settings: &Settings,
    known_pools: &mut BTreeSet<String>,
) -> anyhow::Result<i64> {
    let mut tx = db.begin().await?;
    if !store::queue::ready::try_lock_issuer(&mut tx).await? {
        return Ok(0);
    }
    let offers = offers(&mut tx, settings).await?;
    let pools: BTreeSet<String> = offers
        .iter()
        .flat_map(|offer| offer.pools.iter().cloned())
        .collect();
    for pool in &pools {
        if known_pools.insert(pool.clone()) {
            bus.ensure_ticket_consumer(pool).await?;
        }
    }
    let mut wanted = Vec::with_capacity(pools.len());
    for pool in &pools {
        let offer = Capability::of_pool(pool, &offers);
        wanted.push((pool.clone(), startable(&mut tx, &offer).await?));
    }
    if wanted.iter().all(|(_, n)| *n == 0) {
        tx.commit().await?;
        return Ok(0);
    }
    let waiting = bus.waiting_tickets().await?;
    if waiting.consumers < pools.len() {
        // The store was wiped since they were created.
        known_pools.clear();
    }
    let mut issued = 0;
    for (pool, n) in wanted {
        let missing = n - waiting.by_pool.get(&pool).copied().unwrap_or(0);
        if missing > 0 {
            bus.issue_tickets(&pool, missing).await;
            issued += missing;
        }
    }
    tx.commit().await?;
    Ok(issued)
}

/// The offers of living workers. Tasks whose agent is unavailable everywhere need no ticket, since their
/// slots poll.
async fn offers(conn: &mut PgConnection, settings: &Settings) -> sqlx::Result<Vec<Capability>> {
    let closed = store::availability::not_open(conn).await?;
    // The first slot that asks may try an account whose pause ended.
    let waits = closed
        .into_iter()
        .filter(|account| !matches!(account.state, BreakerState::Free(_)));
    let closed: BTreeSet<String> = waits.map(|account| account.account).collect();
    let workers = store::worker::list(conn, settings.lease_ms()).await?;
    Ok(workers
        .iter()
        .filter(|worker| worker.alive)
        .map(|worker| {
            let is_unavailable = |agent: &&String| worker.doors.iter().any(|door| door.agent == **agent);
            let open = worker.agents.iter().filter(|agent| !is_unavailable(agent));
            let agents = Agents {
                accounts: &worker.accounts,
                rules: &worker.rules,
            };
            let open = open.map(String::as_str);
            Capability::new(&worker.pools, open, agents, Accounts::Not(&closed))
        })
        .collect())
}

/// Number of tasks that a claim with this offer would get now, at most [`TICKET_WINDOW`].
async fn startable(conn: &mut PgConnection, offer: &Capability) -> sqlx::Result<i64> {
    let features = store::queue::features::claimable(conn, offer).await?;
    let mut features: BTreeMap<_, _> = features.into_iter().map(|f| (f.feature, f)).collect();
    selection::omit_unstartable(&mut features);
    let window = u32::try_from(TICKET_WINDOW).unwrap_or(u32::MAX);
    let most: Vec<_> = features
        .values()
        .map(|feature| {
            let follow_ups = u32::try_from(feature.follow_ups).unwrap_or(0);
            let speculation = u32::try_from(feature.speculation).unwrap_or(0);
            let room = selection::share(feature).room.saturating_add(follow_ups);
            let room = room.saturating_add(speculation);
            (feature.feature, room.min(window))
        })
        .filter(|(_, room)| *room > 0)
        .collect();
    if most.is_empty() {
        return Ok(0);
    }
    let n = store::queue::ready::usable(conn, offer, &most).await?;
    Ok(n.min(TICKET_WINDOW))
}

//! Periodic work, once a second or less often. Each loop waits, and a tick works once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Deps;
use crate::flow::memory::embed_entries::Embedded;
use crate::{flow, store};

const SECOND: Duration = Duration::from_secs(1);
/// Offset between the ticks of two loops.
const APART: Duration = Duration::from_millis(90);
const SPREAD: u32 = 10;
/// After a longer gap between two good ticks, renewals may have been missed.
const GAP: Duration = Duration::from_secs(3);
/// Retention of notices. Days.
const NOTICE_DAYS: i32 = 7;
/// Retention of deliveries of hooks. Days.
const DELIVERY_DAYS: i32 = 30;
/// Silent workers are deleted after this. Days.
const WORKER_DAYS: i32 = 30;
/// Drained workers are deleted after this. Minutes.
const DRAINED_MINUTES: i32 = 10;
/// Period of deleting old rows and checking streams.
const UPKEEP: Duration = Duration::from_secs(30);
/// Period of the search for workers on which everything fails.
const HEALTH: Duration = Duration::from_secs(3);
/// Period of the memory's upkeep.
const MEMORY: Duration = Duration::from_secs(3);
/// Period of the search for quarantined entries of done tasks: entries of landed tasks leave at once.
const QUARANTINE: Duration = Duration::from_secs(30);
/// Period of keeping the memory within its bounds.
const BOUNDS: Duration = Duration::from_secs(60);
/// Period of deleting old by-products.
const EXPIRY_PERIOD: Duration = Duration::from_secs(10 * 60);
/// Period of comparing counters with a recount.
const RECOUNT: Duration = Duration::from_secs(10 * 60);
/// Period of the search for attempt refs whose retention is over.
const RETENTION: Duration = Duration::from_secs(60 * 60);
/// Retention of texts in parts. Hours.
const BLOB_HOURS: i32 = 48;
/// Loops with a pulse, by their names in `/readyz`.
const TICKETS: &str = "tickets";
const RESCUE: &str = "rescue";
const RUNS: &str = "runs";

/// Ticks of one loop.
struct Every {
    interval: Interval,
    /// Delay of its second tick beyond the period.
    apart: Option<Duration>,
}

async fn tick(every: &mut Every, shutdown: &CancellationToken) -> bool {
    tokio::select! {
        () = shutdown.cancelled() => return false,
        _ = every.interval.tick() => {}
    }
    if let Some(apart) = every.apart.take() {
        every.interval.reset_after(every.interval.period() + apart);
    }
    true
}

/// The first tick comes at once, the others at an offset from other loops: together they would delay other
/// work.
fn every(period: Duration) -> Every {
    static LOOPS: AtomicU32 = AtomicU32::new(0);
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let number = LOOPS.fetch_add(1, Ordering::Relaxed);
    Every {
        interval,
        apart: Some(APART * (number % SPREAD)),
    }
}

/// Tops tickets up. It fails when the streams are gone, and its restart recreates them.
pub async fn tickets(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    deps.pulse.begin(TICKETS);
    deps.bus.ensure_streams().await?;
    let mut seconds = every(SECOND);
    let mut pools = BTreeSet::new();
    while tick(&mut seconds, shutdown).await {
        flow::claim::tickets::top_up(&deps.db, &deps.bus, &deps.settings, &mut pools).await?;
        deps.pulse.record(TICKETS);
    }
    Ok(())
}

/// Takes back lost dispatches. After a gap in which no renewal could be committed it waits one whole lease;
/// only leases that their workers gave up are taken back at once.
pub async fn rescue(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    deps.pulse.begin(RESCUE);
    let mut seconds = every(SECOND);
    let mut patient_until = Instant::now() + deps.settings.lease;
    let mut last_good = Instant::now();
    let gap_ms = i64::try_from(GAP.as_millis()).unwrap_or(i64::MAX);
    let mut database_time = None;
    while tick(&mut seconds, shutdown).await {
        let connected = deps.bus.client.connection_state() == State::Connected;
        if !connected || last_good.elapsed() > GAP {
            patient_until = Instant::now() + deps.settings.lease;
        }
        let only_ended = Instant::now() < patient_until;
        let before = (database_time, gap_ms);
        match flow::workers::rescue::rescue_after(&deps.db, deps.settings.lease_ms(), only_ended, before)
            .await
        {
            Ok((now, (_, signals))) => {
                if connected {
                    last_good = Instant::now();
                }
                // This clock stops while the machine sleeps, and does not notice a halted database.
                if database_time.is_some_and(|before| now - before > GAP) {
                    patient_until = Instant::now() + deps.settings.lease;
                }
                database_time = Some(now);
                deps.bus.emit(signals).await;
                deps.pulse.record(RESCUE);
            }
            Err(error) => tracing::warn!(%error, "leases could not be checked"),
        }
    }
    Ok(())
}

/// Checks runs for their end, and releases tasks that finished tasks held.
pub async fn runs(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    deps.pulse.begin(RUNS);
    let mut seconds = every(SECOND);
    while tick(&mut seconds, shutdown).await {
        // It locks features that reports wait for, so it uses connections with cached plans.
        let (_, signals) = flow::finish::tick(&deps.reserved.reports).await?;
        deps.bus.emit(signals).await;
        let signals = flow::finish::limits::tick(&deps.db, &deps.settings).await?;
        deps.bus.emit(signals).await;
        deps.pulse.record(RUNS);
    }
    Ok(())
}

pub async fn schedules(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut seconds = every(SECOND);
    while tick(&mut seconds, shutdown).await {
        let (_, signals) = flow::submit::schedule::tick(&deps.db).await?;
        deps.bus.emit(signals).await;
    }
    Ok(())
}

pub async fn recount(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(RECOUNT);
    while tick(&mut rounds, shutdown).await {
        let (_, signals) = flow::maintenance::recount::tick(&deps.db).await?;
        deps.bus.emit(signals).await;
    }
    Ok(())
}

/// Drains workers on which everything fails.
pub async fn health(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(HEALTH);
    while tick(&mut rounds, shutdown).await {
        flow::workers::health::tick(&deps.db, deps.settings.lease_ms()).await?;
    }
    Ok(())
}

/// Renews plans for tables that have grown.
pub async fn plans(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut seconds = every(SECOND);
    let mut sizes = store::database::plans::Sizes::default();
    while tick(&mut seconds, shutdown).await {
        sizes.follow(&mut *deps.db.acquire().await?).await?;
    }
    Ok(())
}

/// Deletes old rows, and recreates missing streams.
pub async fn upkeep(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(UPKEEP);
    while tick(&mut rounds, shutdown).await {
        deps.bus.ensure_streams().await?;
        let mut conn = deps.db.acquire().await?;
        store::blob::prune(&mut conn, BLOB_HOURS).await?;
        store::idempotency::prune(&mut conn).await?;
        store::notice::prune(&mut conn, NOTICE_DAYS).await?;
        store::feature::hook::prune(&mut conn, DELIVERY_DAYS).await?;
        store::worker::forget_gone(&mut conn, WORKER_DAYS, DRAINED_MINUTES).await?;
    }
    Ok(())
}

/// Computes vectors of entries, if an embedding model is configured, and calibrates memories for them.
pub async fn embeddings(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(MEMORY);
    let embedder = deps.settings.embedder.as_ref().filter(|_| deps.settings.memory);
    while let Some(embedder) = embedder
        && tick(&mut rounds, shutdown).await
    {
        let all = async {
            while flow::memory::embed_entries::tick(&deps.db, embedder).await? != Embedded::default() {}
            flow::memory::similarity::calibrate(&mut *deps.db.acquire().await?, embedder).await?;
            anyhow::Ok(())
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            done = all => done?,
        }
    }
    shutdown.cancelled().await;
    Ok(())
}

/// Keeps the memory within its bounds, and starts sessions that merge learnings, where enabled. A failure
/// waits for the next round, since each round reads much.
pub async fn bounds(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(BOUNDS);
    while deps.settings.memory && tick(&mut rounds, shutdown).await {
        if let Err(error) = flow::memory::lifecycle::tick(&deps.db, &deps.settings.bounds).await {
            tracing::warn!(%error, "the memory could not be kept within its bounds");
        }
        if let Some(distill) = deps.settings.bounds.distill {
            match flow::memory::distill::begin(&deps.db, distill).await {
                Ok((_, signals)) => deps.bus.emit(signals).await,
                Err(error) => tracing::warn!(%error, "no session that merges learnings could be started"),
            }
        }
    }
    shutdown.cancelled().await;
    Ok(())
}

/// Deletes old by-products of sessions.
pub async fn delete_expired(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(EXPIRY_PERIOD);
    while tick(&mut rounds, shutdown).await {
        let removed = flow::maintenance::expired::tick(&deps.db, &deps.settings.retention).await?;
        if removed != flow::maintenance::expired::Removed::default() {
            tracing::info!(?removed, "old rows are removed");
        }
    }
    Ok(())
}

/// Asks workers to remove attempt refs whose retention is over.
pub async fn retention(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(RETENTION);
    while tick(&mut rounds, shutdown).await {
        let (features, signals) = flow::maintenance::retention::sweep(&deps.db, &deps.settings).await?;
        if features > 0 {
            tracing::info!(features, "workers are asked to remove branches of old attempts");
        }
        deps.bus.emit(signals).await;
    }
    Ok(())
}

/// Keeps the memory in order: indexes and counts released entries, and weighs them by the ends of attempts.
pub async fn memory(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut rounds = every(MEMORY);
    let mut last_full_round: Option<Instant> = None;
    while deps.settings.memory && tick(&mut rounds, shutdown).await {
        if last_full_round.is_none_or(|at| at.elapsed() >= QUARANTINE) {
            flow::memory::upkeep::tick(&deps.db).await?;
            last_full_round = Some(Instant::now());
        } else {
            flow::memory::upkeep::tick_often(&deps.db).await?;
        }
    }
    shutdown.cancelled().await;
    Ok(())
}

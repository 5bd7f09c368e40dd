//! Keeps the memory within its bounds: hides entries that are unused for long, above the limit, or about
//! missing files (SPEC 6.7). It deletes none. Idempotent, safe to die half-way.

use sqlx::{PgConnection, PgPool};

use crate::domain::recall::Kind;
use crate::domain::recall::lifecycle::{Because, Bounds, STALE_DAYS};
use crate::flow::guard::{guarded, is_away};
use crate::store;

/// Most entries that one round hides for each reason.
const ENTRIES: i64 = 1_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries that no attempt was shown for long.
    pub unused: usize,
    /// Entries above a repository's limit.
    pub full: usize,
    pub stale: usize,
    pub failed: usize,
}

/// Runs one round. A step that fails is logged, and the others still run.
///
/// # Errors
/// When the database can't be reached, or another transaction held the same rows.
pub async fn tick(db: &PgPool, bounds: &Bounds) -> sqlx::Result<Pruned> {
    let mut pruned = Pruned::default();
    let mut steps = vec![Surplus::Stale];
    if bounds.unused_days > 0.0 {
        steps.push(Surplus::Unused(bounds.unused_days));
    }
    steps.push(Surplus::Above(Kind::Learning, bounds.learnings));
    steps.push(Surplus::Above(Kind::Knowledge, bounds.knowledge));
    for step in steps {
        match guarded(hide(db, step)).await {
            Ok(hidden) => match step {
                Surplus::Stale => pruned.stale += hidden,
                Surplus::Unused(_) => pruned.unused += hidden,
                Surplus::Above(..) => pruned.full += hidden,
            },
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, ?step, "entries of the memory could not be hidden; the other steps continue");
                pruned.failed += 1;
            }
        }
    }
    Ok(pruned)
}

#[derive(Debug, Clone, Copy)]
enum Surplus {
    /// Entries whose files are missing for long.
    Stale,
    /// Entries that no attempt was shown for this many days.
    Unused(f64),
    /// Entries of a kind above this number per repository.
    Above(Kind, i64),
}

/// Hides entries; does nothing while another coordinator does so. Waits for concurrent changes, which may
/// keep an entry visible. Returns the number.
async fn hide(db: &PgPool, surplus: Surplus) -> sqlx::Result<usize> {
    let mut tx = db.begin().await?;
    // The next step must not meet this step's lock: a dropped transaction is rolled back only later.
    match hide_within(&mut tx, surplus).await {
        Ok(hidden) => {
            tx.commit().await?;
            Ok(hidden)
        }
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}

async fn hide_within(tx: &mut PgConnection, surplus: Surplus) -> sqlx::Result<usize> {
    if !store::memory::upkeep::try_lock(tx).await? {
        return Ok(0);
    }
    let (found, because, days) = match surplus {
        Surplus::Stale => {
            let found = store::memory::upkeep::long_stale(tx, STALE_DAYS, ENTRIES).await?;
            (found, Because::Stale, STALE_DAYS)
        }
        Surplus::Unused(days) => {
            let found = store::memory::upkeep::unused(tx, days, ENTRIES).await?;
            (found, Because::Unused, days)
        }
        Surplus::Above(kind, bound) => {
            let found = store::memory::upkeep::surplus(tx, kind, bound, ENTRIES).await?;
            (found, Because::Full, 0.0)
        }
    };
    if found.is_empty() {
        return Ok(0);
    }
    let repos = store::memory::retract::repositories(tx, &found, &[]).await?;
    let repos: Vec<&str> = repos.iter().map(String::as_str).collect();
    store::memory::library::lock(tx, &repos).await?;
    let hidden = store::memory::upkeep::prune(tx, &found, because, days).await?;
    store::memory::index::remove(tx, &hidden).await?;
    if !hidden.is_empty() {
        tracing::info!(
            entries = hidden.len(),
            because = because.into_str(),
            "entries of the memory are hidden"
        );
    }
    Ok(hidden.len())
}

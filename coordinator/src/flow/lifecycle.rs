//! Keeps the memory within its bounds: what nobody used for long, what is more than may be, and what is about files that are
//! gone is hidden, never deleted (SPEC 6.7). Idempotent, safe to die half-way.

use sqlx::PgPool;

use crate::domain::lifecycle::{Because, Bounds, STALE_DAYS};
use crate::domain::recall::Kind;
use crate::store;

/// What one round hides for each reason at most.
const ENTRIES: i64 = 1_000;

/// What a round hid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// What no attempt was shown for long.
    pub unused: usize,
    /// What was more than a repository may have.
    pub full: usize,
    /// What is about files that are gone.
    pub stale: usize,
}

/// Works once.
pub async fn tick(db: &PgPool, bounds: &Bounds) -> sqlx::Result<Pruned> {
    let mut pruned = Pruned {
        stale: hide(db, Surplus::Stale).await?,
        ..Pruned::default()
    };
    if bounds.unused_days > 0.0 {
        pruned.unused = hide(db, Surplus::Unused(bounds.unused_days)).await?;
    }
    for (kind, bound) in [
        (Kind::Learning, bounds.learnings),
        (Kind::Knowledge, bounds.knowledge),
    ] {
        pruned.full += hide(db, Surplus::Above(kind, bound)).await?;
    }
    Ok(pruned)
}

/// What is to be hidden.
#[derive(Debug, Clone, Copy)]
enum Surplus {
    /// What is about files that are gone for long.
    Stale,
    /// What no attempt was shown for so many days.
    Unused(f64),
    /// What of a kind a repository has above so many.
    Above(Kind, i64),
}

/// Hides entries; another coordinator that is at it leaves nothing to do. Whoever changes one of them meanwhile is waited for, and keeps
/// it where that makes a difference. Returns how many.
async fn hide(db: &PgPool, surplus: Surplus) -> sqlx::Result<usize> {
    let mut tx = db.begin().await?;
    if !store::upkeep::try_lock(&mut tx).await? {
        return Ok(0);
    }
    let (found, because, days) = match surplus {
        Surplus::Stale => {
            let found = store::upkeep::long_stale(&mut tx, STALE_DAYS, ENTRIES).await?;
            (found, Because::Stale, STALE_DAYS)
        }
        Surplus::Unused(days) => {
            let found = store::upkeep::unused(&mut tx, days, ENTRIES).await?;
            (found, Because::Unused, days)
        }
        Surplus::Above(kind, bound) => {
            let found = store::upkeep::surplus(&mut tx, kind, bound, ENTRIES).await?;
            (found, Because::Full, 0.0)
        }
    };
    if found.is_empty() {
        return Ok(0);
    }
    let repos = store::takeback::repositories(&mut tx, &found, &[]).await?;
    let repos: Vec<&str> = repos.iter().map(String::as_str).collect();
    store::library::lock(&mut tx, &repos).await?;
    let hidden = store::upkeep::prune(&mut tx, &found, because, days).await?;
    store::recall::remove(&mut tx, &hidden).await?;
    tx.commit().await?;
    if !hidden.is_empty() {
        tracing::info!(
            entries = hidden.len(),
            because = because.as_str(),
            "entries of the memory are hidden"
        );
    }
    Ok(hidden.len())
}

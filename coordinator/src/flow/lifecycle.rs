//! Keeps the memory within its bounds: what nobody used for long, what is more than may be, and what is about files that are
//! gone is hidden, never deleted (SPEC 6.7). Idempotent, safe to die half-way.

use sqlx::PgPool;
use uuid::Uuid;

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
    let mut pruned = Pruned::default();
    let mut conn = db.acquire().await?;
    let stale = store::upkeep::long_stale(&mut conn, STALE_DAYS, ENTRIES).await?;
    let unused = if bounds.unused_days > 0.0 {
        store::upkeep::unused(&mut conn, bounds.unused_days, ENTRIES).await?
    } else {
        Vec::new()
    };
    drop(conn);
    pruned.stale = prune(db, &stale, Because::Stale).await?;
    pruned.unused = prune(db, &unused, Because::Unused).await?;
    for (kind, bound) in [
        (Kind::Learning, bounds.learnings),
        (Kind::Knowledge, bounds.knowledge),
    ] {
        let mut conn = db.acquire().await?;
        let surplus = store::upkeep::surplus(&mut conn, kind, bound, ENTRIES).await?;
        drop(conn);
        pruned.full += prune(db, &surplus, Because::Full).await?;
    }
    Ok(pruned)
}

async fn prune(db: &PgPool, ids: &[Uuid], because: Because) -> sqlx::Result<usize> {
    if !ids.is_empty() {
        let mut tx = db.begin().await?;
        store::upkeep::prune(&mut tx, ids, because).await?;
        store::recall::remove(&mut tx, ids).await?;
        tx.commit().await?;
        tracing::info!(
            entries = ids.len(),
            because = because.as_str(),
            "entries of the memory are hidden"
        );
    }
    Ok(ids.len())
}

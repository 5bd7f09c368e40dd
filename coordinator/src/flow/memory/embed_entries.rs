//! Computes vectors of an outside model for entries in the background (SPEC 6.5): after indexing, oldest
//! first, in batches, by one coordinator at a time. A coordinator may die anywhere; another one takes over
//! its batch when its hold ends.

use sqlx::PgPool;

use crate::embedder::{Embedder, Entries};
use crate::store;

/// Entries of one request.
const TOGETHER: i64 = 32;
/// How long a coordinator leases a batch: more than twice the model's time limit.
const LEASE_MS: i64 = 150_000;
/// Delay between an entry's index and its vector. By then, nearly every transaction that started earlier has
/// ended; the second pass finds entries of slower ones.
const SETTLED_SECONDS: f64 = 10.0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Entries that have a vector now.
    pub made: usize,
    /// Entries that the model refuses.
    pub refused: usize,
}

/// Computes the next vectors; does nothing while the model is paused or another coordinator works on them.
pub async fn tick(db: &PgPool, embedder: &Embedder) -> sqlx::Result<Embedded> {
    step(db, embedder, SETTLED_SECONDS).await
}

/// Computes all missing vectors of entries that are in the index now. Returns the sum.
pub async fn settle(db: &PgPool, embedder: &Embedder) -> sqlx::Result<Embedded> {
    let mut all = Embedded::default();
    loop {
        let done = step(db, embedder, 0.0).await?;
        if done == Embedded::default() {
            return Ok(all);
        }
        all.made += done.made;
        all.refused += done.refused;
    }
}

async fn step(db: &PgPool, embedder: &Embedder, settled_seconds: f64) -> sqlx::Result<Embedded> {
    if !embedder.takes_entries() {
        return Ok(Embedded::default());
    }
    let mut tx = db.begin().await?;
    let (model, dimensions) = (embedder.model(), embedder.dimensions());
    let taken =
        store::memory::vectors::take(&mut tx, model, dimensions, TOGETHER, settled_seconds, LEASE_MS).await?;
    tx.commit().await?;
    let Some(batch) = taken else {
        return Ok(Embedded::default());
    };
    let texts: Vec<String> = batch.entries.iter().map(|entry| entry.text.clone()).collect();
    let answered = if texts.is_empty() {
        Entries::NotNow
    } else {
        embedder.entries(&texts).await
    };
    let mut tx = db.begin().await?;
    let done = match answered {
        Entries::NotNow => {
            batch.release(&mut tx).await?;
            Embedded::default()
        }
        Entries::Vectors(vectors) => {
            let made = vectors.iter().flatten().count();
            let refused = vectors.len() - made;
            let kept = batch.keep(&mut tx, &vectors).await?;
            if kept {
                Embedded { made, refused }
            } else {
                Embedded::default()
            }
        }
    };
    tx.commit().await?;
    Ok(done)
}

//! Entries get vectors of an outside model, in the background (SPEC 6.5): after they were indexed, oldest first, a batch at a
//! time by one coordinator at a time. It may die anywhere; what it held is taken over when its time is over.

use sqlx::PgPool;

use crate::embedder::{Embedder, Entries};
use crate::store;

/// Entries of one request.
const TOGETHER: i64 = 32;
/// A batch is held so long: more than twice what the model may take for it.
const HELD_MS: i64 = 150_000;
/// An entry's turn comes so long after it was indexed: by then nearly every transaction that began before it has ended. What one that
/// took longer brought is found when the entries are looked through again.
const SETTLED_SECONDS: f64 = 10.0;

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Entries that have a vector now.
    pub made: usize,
    /// Entries that the model doesn't take.
    pub refused: usize,
}

/// Gets the next entries their vectors; nothing while the model is left alone or another coordinator is at it.
pub async fn tick(db: &PgPool, embedder: &Embedder) -> sqlx::Result<Embedded> {
    step(db, embedder, SETTLED_SECONDS).await
}

/// The same for all entries that stand in the index now; answers what was done altogether.
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
        store::memory::vectors::take(&mut tx, model, dimensions, TOGETHER, settled_seconds, HELD_MS).await?;
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

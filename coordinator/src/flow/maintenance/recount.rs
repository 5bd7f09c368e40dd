//! Compares counters with a recount. A difference is a bug of ours, and is repaired before a run ends too
//! soon or never.

use std::collections::BTreeSet;

use ralph_shared::ids::FeatureId;
use sqlx::PgPool;

use crate::flow::guard::{guarded, is_away};
use crate::flow::{Signals, cascade, finish};
use crate::store;

/// Recounts the tasks of running features whose counters differ. Returns the number of repaired ones.
pub async fn tick(db: &PgPool) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    let drifted = store::figures::drifted(&mut *db.acquire().await?).await?;
    let mut repaired = 0;
    for feature in drifted {
        match guarded(recount(db, feature)).await {
            Ok((is_repaired, more)) => {
                repaired += usize::from(is_repaired);
                signals.merge(more);
            }
            // Earlier repairs are still announced.
            Err(error) if is_away(&error) && repaired > 0 => break,
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, %feature, "the counters of a feature can't be repaired; the others continue");
            }
        }
    }
    Ok((repaired, signals))
}

async fn recount(db: &PgPool, feature: FeatureId) -> sqlx::Result<(bool, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok((false, signals));
    };
    // Under this lock nobody changes the states of its tasks, except claims, which change no counter.
    let counted = store::feature::recount(&mut tx, feature).await?;
    if held.counts == counted {
        return Ok((false, signals));
    }
    tracing::error!(%feature, name = held.name, stored = ?held.counts, ?counted, "the counters of a feature were wrong; please report this");
    held.counts = counted;
    finish::check(&mut tx, &mut features, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    tx.commit().await?;
    Ok((true, signals))
}

//! Counters equal a recount; one that doesn't is an error of ours, and is put right before a run ends too soon or never (DESIGN 2).

use std::collections::BTreeSet;

use ralph_shared::ids::FeatureId;
use sqlx::PgPool;

use crate::flow::guard::{guarded, is_away};
use crate::flow::{Signals, cascade, finish};
use crate::store;

/// Counts the tasks of running features whose counters say something else. Returns how many were put right.
pub async fn tick(db: &PgPool) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    let drifted = store::figures::drifted(&mut *db.acquire().await?).await?;
    let mut mended = 0;
    for feature in drifted {
        match guarded(recount(db, feature)).await {
            Ok((is_mended, more)) => {
                mended += usize::from(is_mended);
                signals.merge(more);
            }
            // What was put right before is told all the same.
            Err(error) if is_away(&error) && mended > 0 => break,
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, %feature, "the counters of a feature can't be put right; the others go on");
            }
        }
    }
    Ok((mended, signals))
}

async fn recount(db: &PgPool, feature: FeatureId) -> sqlx::Result<(bool, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok((false, signals));
    };
    // Nobody moves a task of it between its states now, but for claims, which change no counter.
    let counted = store::feature::recount(&mut tx, feature).await?;
    if held.counts == counted {
        return Ok((false, signals));
    }
    tracing::error!(%feature, name = held.name, said = ?held.counts, ?counted, "the counters of a feature were wrong; please report this");
    held.counts = counted;
    finish::check(&mut tx, &mut features, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    tx.commit().await?;
    Ok((true, signals))
}

//! Keeps tasks on the same paths apart, in features with `--avoid-conflicts`.
//!
//! A task declares its paths, or they are known from its own earlier attempts; without either, none are
//! assumed. A claim looks at the best ready tasks, and takes tasks that overlap with running ones out of the
//! queue. They return when those end, whatever the outcome. The tasks that wait longest keep their paths free
//! ([`paths::admit`]).

use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::scheduling::capability::Capability;
use crate::domain::scheduling::paths::{self, Admission};
use crate::flow::Signals;
use crate::flow::cascade::Features;
use crate::store;
use crate::store::queue::ready::Dequeued;

/// Ready tasks that one query reads beyond those that may start.
const AHEAD: i64 = 256;
/// Most queries per claim; the next claim sees the rest.
const MAX_QUERIES: usize = 8;

/// Takes up to `n` ready tasks of a feature that overlap with no running task, best first. `took` are the
/// tasks that this transaction took before.
pub(in crate::flow) async fn take(
    conn: &mut PgConnection,
    offer: &Capability,
    feature: FeatureId,
    n: u32,
    took: &[Uuid],
) -> sqlx::Result<Vec<Dequeued>> {
    let mut busy = store::queue::path_holds::busy(conn, feature, took).await?;
    let mut waiting = store::queue::path_holds::waiting(conn, feature).await?;
    let mut taken = Vec::new();
    let mut room = n as usize;
    for _ in 0..MAX_QUERIES {
        let most = AHEAD + i64::from(n);
        let candidates = store::queue::path_holds::candidates(conn, offer, feature, most).await?;
        let seen = candidates.len();
        let mut begin = Vec::new();
        let mut held = Vec::new();
        for (task, admission) in paths::admit(room, &mut busy, &mut waiting, candidates) {
            match admission {
                Admission::Admitted => begin.push(task.0),
                Admission::Held { by, path } => held.push((task.0, by.0, path)),
            }
        }
        if !held.is_empty() {
            store::queue::path_holds::hold(conn, &held).await?;
        }
        if !begin.is_empty() {
            taken.extend(store::queue::path_holds::take(conn, &begin).await?);
        }
        room = (n as usize).saturating_sub(taken.len());
        // A short result was all ready tasks.
        if room == 0 || seen < usize::try_from(most).unwrap_or(usize::MAX) {
            break;
        }
    }
    Ok(taken)
}

/// Releases tasks that were held by tasks that are over. The caller holds the features.
pub(in crate::flow) async fn release(
    conn: &mut PgConnection,
    features: &Features,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let apart = features.values().filter(|feature| feature.avoid_conflicts);
    let apart: Vec<Uuid> = apart.map(|feature| feature.id.0).collect();
    if apart.is_empty() {
        return Ok(());
    }
    let free = store::queue::path_holds::release(conn, &apart).await?;
    if !free.is_empty() {
        let at_once = vec![0; free.len()];
        signals.got_work(store::queue::ready::enqueue(conn, &free, &at_once).await?);
    }
    Ok(())
}

//! Consequences of changed tasks for others: dependents, parents, siblings, counters (SPEC 2.4). The caller
//! holds the features' rows, so nothing else changes their graphs meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Signals;
use crate::domain::states::{FailurePolicy, TaskState};
use crate::store;
use crate::store::feature::Locked;
use crate::store::task::{Task, Unblocked};

/// Locked features by id; their counters follow every move.
pub type Features = BTreeMap<FeatureId, Locked>;

pub async fn lock_features(conn: &mut PgConnection, ids: &BTreeSet<FeatureId>) -> sqlx::Result<Features> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    Ok(store::feature::lock(conn, &ids)
        .await?
        .into_iter()
        .map(|f| (f.id, f))
        .collect())
}

/// Locks a task and, before it, its feature; `None` when there is no such task.
pub async fn lock_task(conn: &mut PgConnection, id: TaskId) -> sqlx::Result<Option<(Features, Task)>> {
    let Some(feature) = store::task::feature_of(conn, id).await? else {
        return Ok(None);
    };
    let features = lock_features(conn, &BTreeSet::from([feature])).await?;
    let task = store::task::lock(conn, &[id.0]).await?.pop();
    Ok(task.map(|task| (features, task)))
}

/// Updates the counters for a move of a task.
pub fn moved(features: &mut Features, feature: FeatureId, from: TaskState, to: TaskState) {
    if from != to
        && let Some(held) = features.get_mut(&feature)
    {
        held.counts.moved(from, to);
    }
}

/// Handles tasks that were just done or skipped: dependents lose a blocker, parents a child, and so on
/// upward. Ready tasks are queued.
pub async fn resolved(
    conn: &mut PgConnection,
    features: &mut Features,
    tasks: Vec<TaskId>,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let parts = tasks.clone();
    freed(conn, features, tasks, parts, signals).await.map(drop)
}

/// Like [`resolved`], given which of the tasks are parts of others.
pub async fn freed(
    conn: &mut PgConnection,
    features: &mut Features,
    tasks: Vec<TaskId>,
    parts: Vec<TaskId>,
    signals: &mut Signals,
) -> sqlx::Result<Freed> {
    let mut frontier: Vec<Uuid> = tasks.into_iter().map(|task| task.0).collect();
    let mut below: Vec<Uuid> = parts.into_iter().map(|task| task.0).collect();
    let mut ready = Vec::new();
    while !frontier.is_empty() {
        let unblocked = store::task::unblock_dependents(conn, &frontier).await?;
        ready.extend(opened(conn, features, unblocked).await?);
        frontier = close_parents(conn, features, std::mem::take(&mut below)).await?;
        below.clone_from(&frontier);
    }
    let delays = vec![0; ready.len()];
    let pools = store::queue::ready::enqueue(conn, &ready, &delays).await?;
    let freed = Freed {
        any: !ready.is_empty(),
        any_queued: !pools.is_empty(),
    };
    signals.got_work(pools);
    Ok(freed)
}

/// Tasks that finished tasks release.
#[derive(Debug, Clone, Copy, Default)]
pub struct Freed {
    /// Whether any task waits for nothing more.
    pub any: bool,
    /// Whether any of these may be claimed.
    pub any_queued: bool,
}

/// Handles tasks that lost a blocker: newly open parents release their children, level by level. Returns the
/// tasks that are ready now.
pub async fn opened(
    conn: &mut PgConnection,
    features: &mut Features,
    mut unblocked: Vec<Unblocked>,
) -> sqlx::Result<Vec<Uuid>> {
    let mut ready = Vec::new();
    while !unblocked.is_empty() {
        let mut opened_parents = Vec::new();
        for task in unblocked {
            if task.opened {
                moved(features, task.feature, TaskState::Blocked, TaskState::Pending);
            }
            if task.freed && task.is_parent {
                opened_parents.push(task.id.0);
            } else if task.opened {
                ready.push(task.id.0);
            }
        }
        unblocked = if opened_parents.is_empty() {
            Vec::new()
        } else {
            store::task::open_children_of(conn, &opened_parents).await?
        };
    }
    Ok(ready)
}

/// Handles tasks with one more blocker: tasks that were open close, and hold the tasks below them as one
/// blocker, level by level. A started attempt continues and may land; every new start waits.
pub async fn closed(
    conn: &mut PgConnection,
    features: &mut Features,
    mut closing: Vec<Uuid>,
) -> sqlx::Result<()> {
    while !closing.is_empty() {
        let mut parents = Vec::new();
        for (closed, is_parent) in store::task::dependencies::close(conn, &closing).await? {
            if closed.was == TaskState::Pending {
                moved(features, closed.feature, TaskState::Pending, TaskState::Blocked);
            }
            if is_parent {
                parents.push(closed.id.0);
            }
        }
        closing = store::task::dependencies::children_of(conn, &parents).await?;
    }
    Ok(())
}

/// Handles tasks that a person cancelled: parents no longer wait for them, but dependents do.
pub async fn cancelled(
    conn: &mut PgConnection,
    features: &mut Features,
    tasks: &[Uuid],
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let satisfied = close_parents(conn, features, tasks.to_vec()).await?;
    resolved(
        conn,
        features,
        satisfied.into_iter().map(TaskId).collect(),
        signals,
    )
    .await
}

/// Closes parents without an open child, and theirs, when they only wait for cancelled tasks; returns those
/// whose dependents may run now.
async fn close_parents(
    conn: &mut PgConnection,
    features: &mut Features,
    mut resolved: Vec<Uuid>,
) -> sqlx::Result<Vec<Uuid>> {
    let mut satisfied = Vec::new();
    while !resolved.is_empty() {
        let parents = store::task::resolve_parents(conn, &resolved).await?;
        resolved.clear();
        for parent in parents {
            moved(features, parent.feature, parent.was, parent.now);
            let next = if parent.now.satisfies_dependents() {
                &mut satisfied
            } else {
                &mut resolved
            };
            next.push(parent.id.0);
        }
    }
    Ok(satisfied)
}

/// Handles tasks that failed for good: their ancestors fail, and under `stop` none of their siblings starts.
pub async fn failed(
    conn: &mut PgConnection,
    features: &mut Features,
    tasks: &[(FeatureId, TaskId)],
) -> sqlx::Result<()> {
    let ids: Vec<Uuid> = tasks.iter().map(|(_, task)| task.0).collect();
    if ids.is_empty() {
        return Ok(());
    }
    for ancestor in store::task::fail_ancestors(conn, &ids).await? {
        moved(features, ancestor.feature, ancestor.was, TaskState::Failed);
    }
    for feature in features.values() {
        let of_feature = tasks.iter().filter(|(of, _)| *of == feature.id);
        let ids: Vec<Uuid> = of_feature.map(|(_, task)| task.0).collect();
        if feature.failure_policy == FailurePolicy::Stop && !ids.is_empty() {
            store::task::hold_beside(conn, feature.id, &ids).await?;
        }
    }
    Ok(())
}

/// Handles failed or held tasks that are retried (`again`) or removed: parents without another failed part
/// recover, and tasks that only they stopped may start.
pub async fn forgiven(
    conn: &mut PgConnection,
    features: &mut Features,
    feature: FeatureId,
    again: &[Uuid],
    signals: &mut Signals,
) -> sqlx::Result<()> {
    for parent in store::task::unfail_parents(conn, feature).await? {
        moved(features, feature, TaskState::Failed, parent.now);
    }
    let stops = |held: &Locked| held.failure_policy == FailurePolicy::Stop;
    if features.get(&feature).is_some_and(stops) {
        let mut released = store::task::release_held(conn, feature, again).await?;
        // A started attempt was never held back from its verification and its landing.
        let tasks = store::task::lock(conn, &released).await?;
        let begun = |id: &Uuid| {
            tasks
                .iter()
                .any(|task| task.id.0 == *id && task.state != TaskState::Pending)
        };
        released.retain(|id| !begun(id));
        let delays = vec![0; released.len()];
        signals.got_work(store::queue::ready::enqueue(conn, &released, &delays).await?);
    }
    Ok(())
}

/// Writes the held features back.
pub async fn save_features(
    conn: &mut PgConnection,
    features: &Features,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    signals.features.extend(features.keys());
    store::feature::save(conn, features.values()).await
}

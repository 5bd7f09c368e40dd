//! Adds and removes edges of an existing feature, in one transaction each (SPEC 2.5).

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::ids::TaskId;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::flow::cascade::{self, Features};
use crate::flow::control::{By, CommandOutcome};
use crate::flow::{Signals, edit::cycle, finish};
use crate::store;
use crate::store::task::Task;
use crate::store::task::waits::Moment;

/// Change of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The task waits for the blocker.
    Add,
    /// The task no longer waits for the blocker.
    Remove,
}

/// Changes the edges from `task` to each of `blockers`: all of them or, when one is refused, none. Returns
/// the number of changed edges.
pub async fn change(
    db: &PgPool,
    task: TaskId,
    blockers: &BTreeSet<TaskId>,
    change: Change,
    by: By<'_>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok((done, signals));
    }
    let Some(feature) = store::task::feature_of(&mut tx, task).await? else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    let mut changed = 0;
    let ids: BTreeSet<Uuid> = blockers.iter().chain([&task]).map(|task| task.0).collect();
    let held = store::task::lock(&mut tx, &ids.into_iter().collect::<Vec<_>>()).await?;
    let held: BTreeMap<TaskId, &Task> = held.iter().map(|task| (task.id, task)).collect();
    let Some(&waiting) = held.get(&task) else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let mut others = Vec::with_capacity(blockers.len());
    for blocker in blockers {
        let Some(&found) = held.get(blocker) else {
            let why = format!("the task {blocker} was deleted meanwhile");
            return Ok((CommandOutcome::Refused(why), signals));
        };
        others.push(found);
    }
    // All edges start at the same task, so whether one closes a cycle does not depend on the others.
    if change == Change::Add
        && let Some(why) = refusal(&mut tx, waiting, &others).await?
    {
        return Ok((CommandOutcome::Refused(why), signals));
    }
    for blocker in others {
        let done = match change {
            Change::Add => add(&mut tx, &mut features, waiting, blocker).await?,
            Change::Remove => remove(&mut tx, &mut features, waiting, blocker, &mut signals).await?,
        };
        if done {
            changed += 1;
            let what = match change {
                Change::Add => "wait for",
                Change::Remove => "no longer wait for",
            };
            let why = blocker.id.to_string();
            store::task::log(&mut tx, task, by.actor, what, Some(&why)).await?;
        }
    }
    finish::check(&mut tx, &mut features, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    by.note(&mut tx, changed).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(changed), signals))
}

async fn refusal(conn: &mut PgConnection, task: &Task, blockers: &[&Task]) -> sqlx::Result<Option<String>> {
    for blocker in blockers {
        if task.id == blocker.id {
            return Ok(Some(format!("the task {} can't wait for itself", task.id)));
        }
        if task.feature != blocker.feature {
            return Ok(Some(format!(
                "the task {} belongs to another feature",
                blocker.id
            )));
        }
    }
    if task.state.is_resolved() {
        return Ok(Some(format!(
            "the task {} is {} already, so it can't wait for another; submit a new task",
            task.id,
            task.state.into_str()
        )));
    }
    if let Some(running) = store::task::dependencies::in_progress_below(conn, task.id).await? {
        return Ok(Some(if running == task.id {
            format!(
                "the task {running} is in progress, so it can't wait for another; `task release {running}` takes it from its \
                 worker"
            )
        } else {
            format!(
                "a part of {}, {running}, is in progress; `task release {running}` takes it from its worker",
                task.id
            )
        }));
    }
    let start = Moment {
        task: task.id.0,
        is_end: false,
    };
    let blockers: Vec<Uuid> = blockers.iter().map(|blocker| blocker.id.0).collect();
    if store::task::waits::any_waits_for(conn, &blockers, &[start]).await? {
        let targets = BTreeSet::from([start]);
        let words = cycle::describe(conn, task.id, &blockers, &targets).await?;
        return Ok(Some(words));
    }
    Ok(None)
}

async fn add(
    conn: &mut PgConnection,
    features: &mut Features,
    task: &Task,
    blocker: &Task,
) -> sqlx::Result<bool> {
    if !store::task::dependencies::insert(conn, task.id, blocker.id).await? {
        return Ok(false);
    }
    if blocker.state.satisfies_dependents() {
        return Ok(true);
    }
    cascade::closed(conn, features, vec![task.id.0]).await?;
    Ok(true)
}

async fn remove(
    conn: &mut PgConnection,
    features: &mut Features,
    task: &Task,
    blocker: &Task,
    signals: &mut Signals,
) -> sqlx::Result<bool> {
    if !store::task::dependencies::remove(conn, task.id, blocker.id).await? {
        return Ok(false);
    }
    if !blocker.state.satisfies_dependents()
        && let Some(unblocked) = store::task::dependencies::open(conn, task.id).await?
    {
        let ready = cascade::opened(conn, features, vec![unblocked]).await?;
        let delays = vec![0; ready.len()];
        signals.got_work(store::queue::ready::enqueue(conn, &ready, &delays).await?);
    }
    Ok(true)
}

//! Deletes a task with its outcomes; its learnings outlive it (SPEC 2.2).

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use sqlx::PgPool;

use crate::domain::states::TaskState;
use crate::flow::control::{self, CommandOutcome, TaskCommand};
use crate::flow::{Signals, cascade, finish};
use crate::store;

/// Deletes a task that nobody works on. Dependents continue without it, as after a skip.
pub async fn task(db: &PgPool, id: TaskId, actor: &str) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let Some((_features, task)) = cascade::lock_task(&mut tx, id).await? else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let feature = task.feature;
    let refusal = match task.state {
        _ if task.children > 0 => Some("that has subtasks; delete those first".to_owned()),
        _ if task.role != SessionKind::Work => Some(format!(
            "that is a step of its feature; `task skip {id}` continues without it"
        )),
        TaskState::InProgress => Some(format!(
            "that is in progress; `task release {id}` takes it from its worker"
        )),
        _ => None,
    };
    if let Some(why) = refusal {
        return Ok((
            CommandOutcome::Refused(format!("can't delete a task {why}")),
            signals,
        ));
    }
    if !matches!(task.state, TaskState::Done | TaskState::Skipped) {
        let skip = TaskCommand::Skip;
        let (outcome, more) = control::task_in(&mut tx, id, skip, actor, Some("it is deleted")).await?;
        if !matches!(outcome, CommandOutcome::Done(_)) {
            return Ok((outcome, more));
        }
        signals.merge(more);
    }
    // The skip may have changed the feature's counters and ended its run.
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    if let Some(held) = features.get_mut(&feature) {
        let state = if task.state == TaskState::Done {
            TaskState::Done
        } else {
            TaskState::Skipped
        };
        held.counts.add(state, -1);
    }
    let deleted = store::edit::delete_task(&mut tx, id, task.parent).await?;
    if let Some(held) = features.get(&feature) {
        store::memory::library::lock(&mut tx, &[held.repo_id.as_str()]).await?;
    }
    store::memory::index::remove(&mut tx, &deleted.entries).await?;
    // Tasks that still wait for other paths are held again by the next query.
    let delays = vec![0; deleted.waited.len()];
    signals.got_work(store::queue::ready::enqueue(&mut tx, &deleted.waited, &delays).await?);
    finish::check(&mut tx, &mut features, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), signals))
}

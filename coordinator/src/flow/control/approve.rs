//! A person's approval: the last attempt lands as it was pushed (SPEC 7.4), or the specification, the plan or
//! the tasks count and the next step starts.

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::domain::failure::retry::Trouble;
use crate::domain::states::{FeatureState, TaskState, Verification};
use crate::flow::cascade::{self, Features, moved};
use crate::flow::control::{By, CommandOutcome};
use crate::flow::{
    Signals,
    finish::{self, resume},
    integrate,
    memory::capture,
    submit::agent_graph,
};
use crate::store;
use crate::store::feature::{Locked, Text};
use crate::store::task::Task;

/// Queues the last pushed attempt of a task that needs a person for its feature's turn. A run that ended to
/// wait for this continues; otherwise a feature without a run lands the attempt with its next run.
pub async fn approve(
    db: &PgPool,
    id: TaskId,
    by: impl Into<By<'_>>,
    why: Option<&str>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let by = by.into();
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok((done, signals));
    }
    let Some((mut features, mut task)) = cascade::lock_task(&mut tx, id).await? else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let feature = task.feature;
    if let Some(why) = refusal(&task, features.get(&feature)) {
        return Ok((CommandOutcome::Refused(why), signals));
    }
    if !task.role.changes_files() {
        return step(tx, features, task, by, why).await;
    }
    let Some(pushed) = store::dispatch::last_pushed(&mut tx, id).await? else {
        let why =
            format!("no attempt of {id} pushed work that could land; `task done {id}` continues without it");
        return Ok((CommandOutcome::Refused(why), signals));
    };
    let from = task.state;
    task.state = TaskState::InProgress;
    task.next_kind = Some(SessionKind::Integrate);
    task.verification = Verification::Passed;
    task.dispatch = None;
    moved(&mut features, feature, from, task.state);
    store::git::integration::queue(
        &mut tx,
        feature,
        id,
        pushed.attempt,
        &pushed.commit,
        &pushed.pushed_ref,
        true,
    )
    .await?;
    store::task::save(&mut tx, &[&task]).await?;
    store::task::explain(&mut tx, id, None).await?;
    store::task::log(&mut tx, id, by.actor, "approve", why).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    integrate::promote(&mut tx, &BTreeSet::from([feature]), &mut signals).await?;
    if by.resumes {
        resume::after_decision(&mut tx, feature, true, &mut signals).await?;
    }
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), signals))
}

/// Why a task can't be approved, whatever its result.
fn refusal(task: &Task, feature: Option<&Locked>) -> Option<String> {
    let id = task.id;
    if task.state != TaskState::NeedsReview {
        let state = task.state.into_str();
        return Some(format!(
            "only a task that needs a person can be approved, and {id} is {state}"
        ));
    }
    if let Some(held) = feature.filter(|held| held.state == FeatureState::Cancelled) {
        return Some(format!(
            "the feature `{}` is cancelled; submit a new one",
            held.name
        ));
    }
    match task.role {
        SessionKind::Check => Some(format!(
            "{id} runs the gate on the base commit: `task retry {id}` tries it again, `task skip {id}` lets work land anyway"
        )),
        SessionKind::Git => Some(format!(
            "{id} changes branches, so it has no work to approve: `task retry {id}` repeats it from the present state, \
             `task cancel {id}` leaves the branches as they are"
        )),
        _ => None,
    }
}

/// Accepts the result of a step: a stored text, or a graph that becomes tasks now.
async fn step(
    mut tx: Transaction<'_, Postgres>,
    mut features: Features,
    mut task: Task,
    by: By<'_>,
    why: Option<&str>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut signals = Signals::default();
    let (id, feature) = (task.id, task.feature);
    let texts = store::feature::texts(&mut tx, feature).await?.unwrap_or_default();
    let (text, result) = match task.role {
        SessionKind::Spec => (texts.spec, "specification"),
        SessionKind::Plan => (texts.plan, "plan"),
        _ => (texts.proposed_graph, "graph"),
    };
    let Some(text) = text else {
        let why = format!("no session of {id} wrote a {result} to approve; `task retry {id}` tries again");
        return Ok((CommandOutcome::Refused(why), signals));
    };
    if task.role == SessionKind::Build {
        let children = match agent_graph::grow(&mut tx, &task, &text).await? {
            Ok(children) => children,
            Err(problem) => return Ok((CommandOutcome::Refused(problem), signals)),
        };
        if let Some(held) = features.get_mut(&feature) {
            for child in &children {
                held.counts.add(child.state, 1);
            }
        }
        let ready: Vec<Uuid> = children.iter().filter(|c| c.ready).map(|c| c.id.0).collect();
        let delays = vec![0; ready.len()];
        signals.got_work(store::queue::ready::enqueue(&mut tx, &ready, &delays).await?);
        store::feature::write(&mut tx, feature, Text::ProposedGraph, None).await?;
    }
    moved(&mut features, feature, task.state, TaskState::Done);
    task.state = TaskState::Done;
    task.dispatch = None;
    task.trouble = Trouble::default();
    store::task::save(&mut tx, &[&task]).await?;
    store::task::explain(&mut tx, id, None).await?;
    store::task::log(&mut tx, id, by.actor, "approve", why).await?;
    capture::release(&mut tx, &[id.0], Vec::new()).await?;
    cascade::resolved(&mut tx, &mut features, vec![id], &mut signals).await?;
    finish::check(&mut tx, &mut features, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    if by.resumes {
        resume::after_decision(&mut tx, feature, true, &mut signals).await?;
    }
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), signals))
}

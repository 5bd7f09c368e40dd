//! A person approves what waits for them: the last attempt lands as it was pushed (SPEC 7.4).

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;
use sqlx::PgPool;

use super::cascade::{self, moved};
use super::steer::Steered;
use super::{Signals, integrate};
use crate::domain::states::{Kind, TaskState, Verification};
use crate::store;

/// Sends the last pushed attempt of a task that needs a person into its feature's queue of integrations. A feature that
/// doesn't run lands it with its next run.
pub async fn approve(
    db: &PgPool,
    id: TaskId,
    actor: &str,
    why: Option<&str>,
) -> sqlx::Result<(Steered, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let Some(feature) = store::task::feature_of(&mut tx, id).await? else {
        return Ok((Steered::NotFound, signals));
    };
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    let Some(mut task) = store::task::lock(&mut tx, &[id.0]).await?.pop() else {
        return Ok((Steered::NotFound, signals));
    };
    let refused = |why: String, signals| Ok((Steered::Refused(why), signals));
    if task.state != TaskState::NeedsReview {
        let state = task.state.as_str();
        return refused(
            format!("only what needs a person can be approved, and {id} is {state}"),
            signals,
        );
    }
    let Some(pushed) = store::dispatch::last_pushed(&mut tx, id).await? else {
        return refused(
            format!("no attempt of {id} left anything that could land; `task done {id}` goes on without it"),
            signals,
        );
    };
    let from = task.state;
    task.state = TaskState::InProgress;
    task.next_kind = Some(Kind::Integrate);
    task.verification = Verification::Passed;
    task.dispatch = None;
    moved(&mut features, feature, from, task.state);
    store::integration::queue(
        &mut tx,
        feature,
        id,
        pushed.attempt,
        &pushed.commit,
        &pushed.pushed_ref,
    )
    .await?;
    store::task::save(&mut tx, &[&task]).await?;
    store::task::explain(&mut tx, id, None).await?;
    store::task::log(&mut tx, id, actor, "approve", why).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    integrate::promote(&mut tx, &BTreeSet::from([feature]), &mut signals).await?;
    tx.commit().await?;
    Ok((Steered::Done(1), signals))
}

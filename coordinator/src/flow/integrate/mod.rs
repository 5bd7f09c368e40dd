//! Turns, decisions and landings (DESIGN 6). An integration is decided here before anybody pushes it.

pub(crate) mod base_gate;
pub mod operations;
mod train;

use std::collections::BTreeSet;

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{DecideAnswer, DecideRequest};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{Signals, cascade};
use crate::domain::failure::retry;
use crate::domain::states::FeatureState;
use crate::faults;
use crate::store;

/// Queues the next integration of each feature without a turn holder. Before it comes a waiting task that
/// conflicted twice in a row, and behind it come checks of waiting attempts.
pub async fn promote(
    conn: &mut PgConnection,
    features: &BTreeSet<FeatureId>,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    if features.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = features.iter().map(|feature| feature.0).collect();
    signals.got_work(store::queue::collisions::enqueue_colliding(conn, &ids).await?);
    let checks = train::prepare(conn, &ids, signals).await?;
    let next: Vec<Uuid> = store::git::integration::next_turns(conn, &ids)
        .await?
        .into_iter()
        .map(|(_, task)| task.0)
        .collect();
    if next.len() < ids.len() {
        store::git::gate::hurry(conn, &ids).await?;
    }
    if !next.is_empty() {
        give_turns(conn, &next, signals).await?;
    }
    train::queue(conn, checks, signals).await
}

async fn give_turns(conn: &mut PgConnection, next: &[Uuid], signals: &mut Signals) -> sqlx::Result<()> {
    let open = store::git::integration::open_of_tasks(conn, next).await?;
    let pause = |task: &Uuid| {
        let open = open.iter().find(|i| i.task.0 == *task);
        let tries = open.map_or(0, |i| i.tries + i.away);
        i64::try_from(retry::pause(tries).as_millis()).unwrap_or(0)
    };
    let delays: Vec<i64> = next.iter().map(pause).collect();
    let pools = store::queue::ready::enqueue(conn, next, &delays).await?;
    // Claims do not take the feature's lock. A claim that took the turn meanwhile has just made this
    // statement wait, and its task must not be claimed twice.
    store::queue::ready::withdraw_held_turns(conn, next).await?;
    signals.got_work(pools);
    Ok(())
}

/// Answers a turn holder that asks whether it may push. One transaction checks the fence and stores the
/// feature's only open integration. A repeated request with the same values gets the same answer.
pub async fn decide(db: &PgPool, request: &DecideRequest) -> sqlx::Result<DecideAnswer> {
    let refused = |reason: &str| {
        Ok(DecideAnswer::Refused {
            reason: reason.to_owned(),
        })
    };
    let mut tx = db.begin().await?;
    let Some(dispatch) = store::dispatch::read(&mut tx, &[request.dispatch.0]).await?.pop() else {
        return refused("no such dispatch");
    };
    if dispatch.incarnation != request.incarnation {
        return refused("another worker holds the dispatch");
    }
    let is_operation = dispatch.kind == SessionKind::Git;
    if is_operation {
        // It takes no turn, which a cancelled feature would not grant. So the feature's row orders the push and
        // the cancellation.
        let features = cascade::lock_features(&mut tx, &BTreeSet::from([dispatch.feature])).await?;
        let feature = features.get(&dispatch.feature);
        if feature.is_none_or(|feature| feature.state == FeatureState::Cancelled) {
            return refused("the feature was cancelled");
        }
    }
    let tasks = store::task::lock(&mut tx, &[dispatch.task.0]).await?;
    if tasks.first().and_then(|task| task.dispatch) != Some(request.dispatch) {
        return refused("the task has another dispatch");
    }
    if is_operation {
        // It takes no turn: its push names the old head of the branch, and it finds its own earlier pushes.
        // From here on nobody may take the task away.
        if !store::git::operation::decide(&mut tx, request.dispatch).await? {
            return refused("the dispatch is over");
        }
        faults::point("decide.before_commit");
        tx.commit().await?;
        return Ok(DecideAnswer::Decided);
    }
    let Some(names) = store::git::integration::names(&mut tx, dispatch.task).await? else {
        return refused("the task is gone");
    };
    let new_ref = names.attempt_ref(dispatch.place, dispatch.attempt, request.dispatch);
    if !store::git::integration::decide(&mut tx, request.dispatch, &request.old, &request.new, &new_ref)
        .await?
    {
        return refused("the dispatch does not hold the feature's turn");
    }
    faults::point("decide.before_commit");
    tx.commit().await?;
    faults::point("decide.after_commit");
    Ok(DecideAnswer::Decided)
}

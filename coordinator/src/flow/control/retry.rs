//! Retries tasks after failure, cancel, skip or review (SPEC 2.4, 7.4).

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use super::super::Signals;
use super::super::cascade::{self, Features, moved};
use super::task::fence_off;
use crate::domain::failure::retry::Trouble;
use crate::store;
use crate::store::feature::Text;
use crate::store::task::Task;

/// The tasks that a parent's retry retries: the leaves below it that failed or wait for a person.
pub(in crate::flow::control) async fn failed_below(
    conn: &mut PgConnection,
    parent: &Task,
) -> sqlx::Result<Vec<Task>> {
    let leaves = store::task::failed_leaves_below(conn, parent.id).await?;
    store::task::lock(conn, &leaves).await
}

/// Retries locked leaves of one feature, each for the reason `why`. They start even beside a failure that
/// stops others, since a person wants it.
pub(in crate::flow::control) async fn try_again(
    conn: &mut PgConnection,
    features: &mut Features,
    mut tasks: Vec<Task>,
    why: Option<&str>,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let Some(feature) = tasks.first().map(|task| task.feature) else {
        return Ok(());
    };
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.id.0).collect();
    store::queue::ready::withdraw(conn, &ids).await?;
    store::queue::ready::forget_pauses(conn, &ids).await?;
    let (mut satisfied, mut resolved) = (Vec::new(), Vec::new());
    for task in &mut tasks {
        fence_off(conn, task, signals).await?;
        if task.state.satisfies_dependents() {
            satisfied.push(task.id.0);
        }
        if task.state.is_resolved() {
            resolved.push(task.id.0);
        }
        let waiting = task.waiting();
        moved(features, feature, task.state, waiting);
        task.state = waiting;
        task.next_kind = Some(task.role);
        task.trouble = Trouble::default();
        forget_result(conn, feature, task).await?;
        if let Some(why) = why
            && !store::dispatch::note_feedback(conn, task.id, why).await?
        {
            // Without an earlier attempt, the reason joins the description for the first session.
            store::edit::add_to_description(conn, task.id, why).await?;
        }
    }
    store::task::save(conn, &tasks.iter().collect::<Vec<_>>()).await?;
    let dependents = store::task::dependencies::dependents_of(conn, &satisfied).await?;
    cascade::closed(conn, features, dependents).await?;
    store::task::reopen_parents(conn, &resolved).await?;
    cascade::forgiven(conn, features, feature, &ids, signals).await?;
    let delays = vec![0; ids.len()];
    signals.got_work(store::queue::ready::enqueue(conn, &ids, &delays).await?);
    Ok(())
}

/// Drops the result of an earlier attempt that waited for a person.
async fn forget_result(conn: &mut PgConnection, feature: FeatureId, task: &Task) -> sqlx::Result<()> {
    store::task::explain(conn, task.id, None).await?;
    if matches!(task.role, SessionKind::Build | SessionKind::Review) {
        store::feature::write(conn, feature, Text::ProposedGraph, None).await?;
    }
    Ok(())
}

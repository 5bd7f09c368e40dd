//! Tasks that a build or a review requested and that do not exist yet, when a person ends it without an
//! approval.

use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use super::super::Signals;
use super::super::cascade::Features;
use crate::domain::states::{FeatureState, TaskState};
use crate::flow::submit::agent_graph;
use crate::store;
use crate::store::feature::Text;
use crate::store::task::Task;

/// Creates the tasks of a review that a person marks as done, as its landing would have. Any other end drops
/// the request, and the log keeps it. The inner error says why this end is impossible.
pub(in crate::flow::control) async fn settle(
    conn: &mut PgConnection,
    features: &mut Features,
    task: &Task,
    to: TaskState,
    actor: &str,
    signals: &mut Signals,
) -> sqlx::Result<Result<(), String>> {
    let ends = to.is_resolved() || to == TaskState::Failed;
    if !ends || !matches!(task.role, SessionKind::Build | SessionKind::Review) {
        return Ok(Ok(()));
    }
    let (id, feature) = (task.id, task.feature);
    let texts = store::feature::texts(conn, feature).await?.unwrap_or_default();
    let Some(graph) = texts.proposed_graph else {
        return Ok(Ok(()));
    };
    let held = features
        .get_mut(&feature)
        .filter(|held| held.state != FeatureState::Cancelled);
    match held {
        Some(held) if task.role == SessionKind::Review && to == TaskState::Done => {
            let children = match agent_graph::grow(conn, task, &graph).await? {
                Ok(children) => children,
                Err(problem) => {
                    return Ok(Err(format!(
                        "the changes that {id} requests can't become tasks; `task skip {id}` continues without them: {problem}"
                    )));
                }
            };
            for child in &children {
                held.counts.add(child.state, 1);
            }
            let ready: Vec<Uuid> = children.iter().filter(|c| c.ready).map(|c| c.id.0).collect();
            let delays = vec![0; ready.len()];
            signals.got_work(store::queue::ready::enqueue(conn, &ready, &delays).await?);
        }
        _ => {
            let why = format!("its request is dropped:\n{graph}");
            store::task::log(conn, id, actor, "edit", Some(&why)).await?;
        }
    }
    store::feature::write(conn, feature, Text::ProposedGraph, None).await?;
    Ok(Ok(()))
}

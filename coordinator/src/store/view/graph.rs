//! A feature's tasks and dependencies, for drawing.

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::states::TaskState;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    pub id: TaskId,
    pub parent: Option<Uuid>,
    pub key: String,
    pub title: String,
    pub state: TaskState,
    /// Whether a session works on it.
    pub live: bool,
}

/// Tasks in the order of creation, at most `limit`, and their edges (task, blocker).
pub async fn graph(
    conn: &mut PgConnection,
    feature: FeatureId,
    limit: i64,
) -> sqlx::Result<(Vec<GraphNode>, Vec<(TaskId, TaskId)>)> {
    let rows = sqlx::query!(
        r#"select t.id, t.parent_id, x.key, x.title, t.state as "state: TaskState",
                  t.state = 'in_progress' and coalesce(
                    (select true from dispatches d where d.id = t.dispatch_id and d.state = 'live' limit 1), false) as "live!"
           from tasks t
           join task_texts x on x.task_id = t.id
           where t.feature_id = $1
           order by t.id
           limit $2"#,
        feature.0,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let edges = sqlx::query!(
        "select task_id, blocker_id from dependencies where task_id = any($1)",
        &ids,
    )
    .fetch_all(conn)
    .await?;
    let nodes = rows.into_iter().map(|row| GraphNode {
        id: TaskId(row.id),
        parent: row.parent_id,
        key: row.key,
        title: row.title,
        state: row.state,
        live: row.live,
    });
    let edges = edges
        .into_iter()
        .map(|row| (TaskId(row.task_id), TaskId(row.blocker_id)));
    Ok((nodes.collect(), edges.collect()))
}

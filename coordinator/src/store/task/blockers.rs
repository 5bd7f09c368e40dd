//! Consequences of a resolved task for its dependents.

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

/// A task that lost a blocker.
#[derive(Debug, Clone, Copy)]
pub struct Unblocked {
    pub id: TaskId,
    pub feature: FeatureId,
    /// Whether nothing blocks it any more.
    pub freed: bool,
    /// Whether it was `blocked` and is `pending` now.
    pub opened: bool,
    pub is_parent: bool,
}

struct Row {
    id: Uuid,
    feature_id: Uuid,
    freed: bool,
    opened: bool,
    is_parent: bool,
}

impl From<Row> for Unblocked {
    fn from(row: Row) -> Self {
        Self {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            freed: row.freed,
            opened: row.opened,
            is_parent: row.is_parent,
        }
    }
}

/// Removes a blocker from the dependents of each of `resolved`; a dependent of several loses several.
pub async fn unblock_dependents(conn: &mut PgConnection, resolved: &[Uuid]) -> sqlx::Result<Vec<Unblocked>> {
    let rows = sqlx::query_as!(
        Row,
        r#"with hits as (
             select task_id, count(*)::int as n
             from dependencies
             where blocker_id = any($1)
             group by task_id
           ), locked as (
             select t.id, t.open_blockers - hits.n as left_over, t.state, hits.n
             from tasks t join hits on hits.task_id = t.id
             order by t.id
             for no key update of t
           )
           update tasks t
           set open_blockers = locked.left_over,
               state = case when locked.left_over = 0 and locked.state = 'blocked' then 'pending'::task_state else t.state end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.children > 0 as "is_parent!",
                     locked.left_over = 0 as "freed!",
                     (locked.left_over = 0 and locked.state = 'blocked') as "opened!""#,
        resolved,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Unblocked::from).collect())
}

/// Removes one open blocker, the parent itself, from the children of these parents.
pub async fn open_children_of(conn: &mut PgConnection, parents: &[Uuid]) -> sqlx::Result<Vec<Unblocked>> {
    let rows = sqlx::query_as!(
        Row,
        r#"with locked as (
             select id, open_blockers - 1 as left_over, state
             from tasks
             where parent_id = any($1)
             order by id
             for no key update
           )
           update tasks t
           set open_blockers = locked.left_over,
               state = case when locked.left_over = 0 and locked.state = 'blocked' then 'pending'::task_state else t.state end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.children > 0 as "is_parent!",
                     locked.left_over = 0 as "freed!",
                     (locked.left_over = 0 and locked.state = 'blocked') as "opened!""#,
        parents,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Unblocked::from).collect())
}

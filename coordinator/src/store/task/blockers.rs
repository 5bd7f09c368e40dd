//! What a task that is resolved, or is so no more, means for those that wait for it.

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::Moved;
use crate::domain::states::TaskState;

/// A task that lost a blocker.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Unblocked {
    pub id: TaskId,
    pub feature: FeatureId,
    /// Nothing blocks it any more.
    pub freed: bool,
    /// It was `blocked` and is `pending` now.
    pub opened: bool,
    pub is_parent: bool,
}

/// Takes a blocker from the dependents of each of `resolved`; a dependent of several loses several.
pub async fn unblock_dependents(conn: &mut PgConnection, resolved: &[Uuid]) -> sqlx::Result<Vec<Unblocked>> {
    let rows = sqlx::query!(
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
    Ok(rows
        .into_iter()
        .map(|row| Unblocked {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            freed: row.freed,
            opened: row.opened,
            is_parent: row.is_parent,
        })
        .collect())
}

/// Takes the one blocker that a closed parent was for its children.
pub async fn open_children_of(conn: &mut PgConnection, parents: &[Uuid]) -> sqlx::Result<Vec<Unblocked>> {
    let rows = sqlx::query!(
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
    Ok(rows
        .into_iter()
        .map(|row| Unblocked {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            freed: row.freed,
            opened: row.opened,
            is_parent: row.is_parent,
        })
        .collect())
}

/// Gives dependents a blocker back whose state no longer satisfies them; only those that have not started. Returns those
/// that were pending.
pub async fn block_dependents(conn: &mut PgConnection, blockers: &[Uuid]) -> sqlx::Result<Vec<Moved>> {
    let rows = sqlx::query!(
        r#"with hits as (
             select d.task_id, count(*)::int as n
             from dependencies d
             where d.blocker_id = any($1)
             group by d.task_id
           ), locked as (
             select t.id, t.state, hits.n
             from tasks t join hits on hits.task_id = t.id
             order by t.id
             for no key update of t
           ), updated as (
             update tasks t
             set open_blockers = t.open_blockers + locked.n,
                 state = case when locked.state = 'pending' then 'blocked'::task_state else t.state end
             from locked
             where t.id = locked.id
             returning t.id, t.feature_id, locked.state as was
           ), withdrawn as (
             delete from ready_tasks where task_id in (select id from updated where was = 'pending')
           )
           select id as "id!", feature_id as "feature_id!", was as "was!: TaskState"
           from updated
           where was = 'pending'"#,
        blockers,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Moved {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            was: row.was,
        })
        .collect())
}

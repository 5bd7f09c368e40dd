//! What a task means for those above and below it.

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::Moved;
use crate::domain::states::TaskState;

/// Turns a task into the parent of `children` new ones; it is not worked on itself any more.
pub async fn become_parent(conn: &mut PgConnection, task: TaskId, children: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "update tasks
         set children = children + $2, open_children = open_children + $2, next_kind = null
         where id = $1",
        task.0,
        children,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A parent whose last child was resolved: what it was, and what it is now.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct ClosedParent {
    pub id: TaskId,
    pub feature: FeatureId,
    pub was: TaskState,
    pub now: TaskState,
}

/// Takes open children from the parents of each of `resolved`, and resolves those that have none left: done with a child
/// that is done (SPEC 2.4), else skipped with one that was skipped, else cancelled.
pub async fn resolve_parents(conn: &mut PgConnection, resolved: &[Uuid]) -> sqlx::Result<Vec<ClosedParent>> {
    let rows = sqlx::query!(
        r#"with hits as (
             select parent_id, count(*)::int as n
             from tasks
             where id = any($1) and parent_id is not null
             group by parent_id
           ), locked as (
             select t.id, t.open_children - hits.n as left_over, t.state,
                    t.open_children - hits.n = 0
                      and t.state not in ('done', 'cancelled', 'skipped')
                      as finished,
                    exists (select 1 from tasks c where c.parent_id = t.id and c.state = 'done') as some_done,
                    exists (select 1 from tasks c where c.parent_id = t.id and c.state = 'skipped') as some_skipped
             from tasks t join hits on hits.parent_id = t.id
             order by t.id
             for no key update of t
           ), updated as (
             update tasks t
             set open_children = locked.left_over,
                 state = case when not locked.finished then t.state
                              when locked.some_done then 'done'
                              when locked.some_skipped then 'skipped'
                              else 'cancelled' end
             from locked
             where t.id = locked.id
             returning t.id, t.feature_id, locked.state as was, t.state, locked.finished
           )
           select id as "id!", feature_id as "feature_id!", was as "was!: TaskState", state as "now!: TaskState"
           from updated
           where finished"#,
        resolved,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClosedParent {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            was: row.was,
            now: row.now,
        })
        .collect())
}

/// Fails every ancestor that can still fail; returns what they were.
pub async fn fail_ancestors(conn: &mut PgConnection, failed: &[Uuid]) -> sqlx::Result<Vec<Moved>> {
    let rows = sqlx::query!(
        r#"with recursive up as (
             select parent_id as id from tasks where id = any($1) and parent_id is not null
             union
             select t.parent_id from tasks t join up on t.id = up.id where t.parent_id is not null
           ), locked as (
             select t.id, t.state
             from tasks t join up on up.id = t.id
             where t.state in ('pending', 'blocked', 'in_progress')
             order by t.id
             for no key update of t
           )
           update tasks t
           set state = 'failed'
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, locked.state as "was!: TaskState""#,
        failed,
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

/// Holds or frees everything below `roots` (themselves left out); returns nothing to claim of it any more.
pub async fn hold_below(conn: &mut PgConnection, roots: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with recursive below as (
           select id from tasks where parent_id = any($1)
           union
           select t.id from tasks t join below on t.parent_id = below.id
         ), marked as (
           update tasks set held = true where id in (select id from below) and not held returning id
         )
         delete from ready_tasks where task_id in (select id from below)",
        roots,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes back what [`hold_below`] did, unless another task directly below the same parent is still failed;
/// returns what is let go and pending.
pub async fn release_below(conn: &mut PgConnection, parent: TaskId) -> sqlx::Result<Vec<Uuid>> {
    let rows = sqlx::query!(
        r#"with recursive below as (
             select id from tasks where parent_id = $1
             union
             select t.id from tasks t join below on t.parent_id = below.id
           )
           update tasks set held = false
           where id in (select id from below) and held
             and not exists (select from tasks s where s.parent_id = $1 and s.state = 'failed')
           returning id, state = 'pending' and children = 0 as "pending!""#,
        parent.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .filter(|row| row.pending)
        .map(|row| row.id)
        .collect())
}

/// Gives parents an open child back for each of `tasks` that was resolved and isn't any more.
pub async fn reopen_parents(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update tasks p
         set open_children = p.open_children + hits.n
         from (
           select parent_id, count(*)::int as n from tasks where id = any($1) and parent_id is not null group by parent_id
         ) hits
         where p.id = hits.parent_id",
        tasks,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// An ancestor whose failure was taken back.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Reopened {
    pub id: TaskId,
    pub feature: FeatureId,
    pub now: TaskState,
}

/// Takes back the failure of the ancestors of `tasks`; returns what they are now.
pub async fn unfail_ancestors(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Reopened>> {
    let rows = sqlx::query!(
        r#"with recursive up as (
             select parent_id as id from tasks where id = any($1) and parent_id is not null
             union
             select t.parent_id from tasks t join up on t.id = up.id where t.parent_id is not null
           ), locked as (
             select t.id
             from tasks t join up on up.id = t.id
             where t.state = 'failed'
             order by t.id
             for no key update of t
           )
           update tasks t
           set state = case when t.open_blockers > 0 then 'blocked'::task_state else 'pending' end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.state as "state!: TaskState""#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Reopened {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            now: row.state,
        })
        .collect())
}

/// How many tasks stand above one.
pub async fn depth(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<i32> {
    sqlx::query_scalar!(
        r#"with recursive up as (
             select parent_id as id from tasks where id = $1 and parent_id is not null
             union
             select t.parent_id from tasks t join up on t.id = up.id where t.parent_id is not null
           )
           select count(*)::int as "n!" from up"#,
        task.0,
    )
    .fetch_one(conn)
    .await
}

/// Leaves below a task that failed or wait for a person.
pub async fn failed_leaves_below(conn: &mut PgConnection, parent: TaskId) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive below as (
             select id, children, state from tasks where parent_id = $1
             union
             select t.id, t.children, t.state from tasks t join below b on t.parent_id = b.id
           )
           select id as "id!" from below where children = 0 and state in ('failed', 'needs_review') order by id"#,
        parent.0,
    )
    .fetch_all(conn)
    .await
}

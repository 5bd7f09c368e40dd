//! Consequences of a task for its ancestors and descendants.

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::states::TaskState;

/// Turns a task into the parent of `children` new ones; nobody works on the task itself any more.
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

/// A parent whose last child was resolved, with its old and new state.
#[derive(Debug, Clone, Copy)]
pub struct ClosedParent {
    pub id: TaskId,
    pub feature: FeatureId,
    pub was: TaskState,
    pub now: TaskState,
}

/// Removes open children from the parents of each of `resolved`, and resolves parents without any other open
/// child: done with a done child (SPEC 2.4), else skipped with a skipped one, else cancelled.
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
                    -- With `exists` a plan may gather these from all tasks.
                    (select true from tasks c where c.parent_id = t.id and c.state = 'done' limit 1) as some_done,
                    (select true from tasks c where c.parent_id = t.id and c.state = 'skipped' limit 1) as some_skipped
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

/// The state of a parent whose children are all resolved, by the rule of [`resolve_parents`].
pub async fn made_of_parts(conn: &mut PgConnection, parent: TaskId) -> sqlx::Result<TaskState> {
    let parts = sqlx::query!(
        r#"select coalesce(bool_or(state = 'done'), false) as "some_done!", coalesce(bool_or(state = 'skipped'), false) as "some_skipped!"
           from tasks
           where parent_id = $1"#,
        parent.0,
    )
    .fetch_one(conn)
    .await?;
    Ok(match (parts.some_done, parts.some_skipped) {
        (true, _) => TaskState::Done,
        (false, true) => TaskState::Skipped,
        (false, false) => TaskState::Cancelled,
    })
}

/// Adds an open child to the parent of each of `tasks`, which were resolved and no longer are.
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

/// Unfinished leaves of a split task: those in progress first, 100 at most.
pub async fn open_leaves(conn: &mut PgConnection, whole: TaskId) -> sqlx::Result<Vec<(TaskId, TaskState)>> {
    let rows = sqlx::query!(
        r#"with recursive below as (
             select id, children, state from tasks where parent_id = $1
             union
             select t.id, t.children, t.state from tasks t join below b on t.parent_id = b.id
           )
           select id as "id!", state as "state!: TaskState"
           from below
           where children = 0 and state not in ('done', 'skipped', 'cancelled')
           order by state <> 'in_progress', id
           limit 100"#,
        whole.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (TaskId(row.id), row.state)).collect())
}

/// Number of a task's ancestors.
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

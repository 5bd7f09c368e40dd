//! Adds and removes edges between existing tasks (SPEC 2.5).

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::states::TaskState;
use crate::store::task::{Moved, Unblocked};

/// Adds an edge; `false` when it exists already.
pub async fn insert(conn: &mut PgConnection, task: TaskId, blocker: TaskId) -> sqlx::Result<bool> {
    let added = sqlx::query!(
        "insert into dependencies (task_id, blocker_id) values ($1, $2) on conflict do nothing",
        task.0,
        blocker.0,
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// A task that another one waits for.
#[derive(Debug, Clone)]
pub struct Blocker {
    pub id: TaskId,
    pub key: String,
    pub state: TaskState,
}

/// Unfinished blockers of a task and of its ancestors, the first 20.
pub async fn open_above(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<Blocker>> {
    let rows = sqlx::query!(
        r#"with recursive line as (
             select id, parent_id from tasks where id = $1
             union
             select t.id, t.parent_id from tasks t join line on t.id = line.parent_id
           )
           select distinct b.id as "id!", x.key as "key!", b.state as "state!: TaskState"
           from line
           cross join lateral (select blocker_id from dependencies where task_id = line.id) d
           cross join lateral (select id, state from tasks where id = d.blocker_id limit 1) b
           cross join lateral (select key from task_texts where task_id = b.id limit 1) x
           where b.state not in ('done', 'skipped')
           order by 1
           limit 20"#,
        task.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Blocker {
            id: TaskId(row.id),
            key: row.key,
            state: row.state,
        })
        .collect())
}

/// Removes an edge; `false` when it does not exist.
pub async fn remove(conn: &mut PgConnection, task: TaskId, blocker: TaskId) -> sqlx::Result<bool> {
    let removed = sqlx::query!(
        "delete from dependencies where task_id = $1 and blocker_id = $2",
        task.0,
        blocker.0,
    )
    .execute(conn)
    .await?;
    Ok(removed.rows_affected() == 1)
}

/// Adds one open blocker to tasks; pending ones become blocked and leave the queue. Returns tasks that had no
/// blocker before, with their earlier state, and whether they are parents.
pub async fn close(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<(Moved, bool)>> {
    let rows = sqlx::query!(
        r#"with locked as (
             select id, state, open_blockers
             from tasks
             where id = any($1)
             order by id
             for no key update
           ), updated as (
             update tasks t
             set open_blockers = t.open_blockers + 1,
                 state = case when locked.state = 'pending' then 'blocked'::task_state else t.state end,
                 -- A pause that is not over holds when it is let go.
                 not_before = coalesce(
                   (select r.not_before from ready_tasks r where r.task_id = t.id and r.not_before > now()), t.not_before)
             from locked
             where t.id = locked.id
             returning t.id, t.feature_id, t.children, locked.state as was, locked.open_blockers as had
           )
           select id as "id!", feature_id as "feature_id!", was as "was!: TaskState", children > 0 as "is_parent!"
           from updated
           where had = 0"#,
        tasks,
    )
    .fetch_all(&mut *conn)
    .await?;
    // A separate statement, which sees tasks that a claim put back while the first statement waited for it.
    let waits: Vec<Uuid> = rows
        .iter()
        .filter(|row| row.was == TaskState::Pending)
        .map(|row| row.id)
        .collect();
    crate::store::queue::ready::withdraw(conn, &waits).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let moved = Moved {
                id: TaskId(row.id),
                feature: FeatureId(row.feature_id),
                was: row.was,
            };
            (moved, row.is_parent)
        })
        .collect())
}

/// Removes one open blocker from a task.
pub async fn open(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<Unblocked>> {
    let row = sqlx::query!(
        r#"with locked as (
             select id, state, open_blockers - 1 as left_over from tasks where id = $1 for no key update
           )
           update tasks t
           set open_blockers = locked.left_over,
               state = case when locked.left_over = 0 and locked.state = 'blocked' then 'pending'::task_state else t.state end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.children > 0 as "is_parent!", locked.left_over = 0 as "freed!",
                     (locked.left_over = 0 and locked.state = 'blocked') as "opened!""#,
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Unblocked {
        id: TaskId(row.id),
        feature: FeatureId(row.feature_id),
        freed: row.freed,
        opened: row.opened,
        is_parent: row.is_parent,
    }))
}

pub async fn dependents_of(conn: &mut PgConnection, blockers: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select task_id from dependencies where blocker_id = any($1)",
        blockers
    )
    .fetch_all(conn)
    .await
}

pub async fn children_of(conn: &mut PgConnection, parents: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!("select id from tasks where parent_id = any($1)", parents)
        .fetch_all(conn)
        .await
}

/// A task in progress: this one, or a descendant. Nobody works on a split task itself.
pub async fn in_progress_below(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<TaskId>> {
    let id = sqlx::query_scalar!(
        r#"with recursive below as (
             select id, children, state from tasks where id = $1
             union
             select t.id, t.children, t.state from tasks t join below on t.parent_id = below.id
           )
           select id as "id!" from below where state = 'in_progress' and children = 0 limit 1"#,
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(id.map(TaskId))
}

pub async fn above(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive above as (
             select parent_id from tasks where id = $1 and parent_id is not null
             union
             select t.parent_id from tasks t join above a on t.id = a.parent_id where t.parent_id is not null
           )
           select parent_id as "id!" from above"#,
        task.0,
    )
    .fetch_all(conn)
    .await
}

pub async fn titles(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<(Uuid, String)>> {
    let rows = sqlx::query!(
        "select task_id, title from task_texts where task_id = any($1)",
        tasks
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.task_id, row.title)).collect())
}

//! Consequences of a final failure for ancestors and, under the policy `stop`, for siblings (SPEC 2.4).

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::Moved;
use crate::domain::states::TaskState;

/// Fails every ancestor that can still fail; returns their earlier states.
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

/// A parent that is no longer failed.
#[derive(Debug, Clone, Copy)]
pub struct Unfailed {
    pub id: TaskId,
    pub now: TaskState,
}

/// Takes back the failure of a feature's parents without a failed leaf below them.
pub async fn unfail_parents(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<Unfailed>> {
    let rows = sqlx::query!(
        r#"with recursive above as (
             select parent_id as id
             from tasks
             where feature_id = $1 and state = 'failed' and children = 0 and parent_id is not null
             union
             select t.parent_id from tasks t join above a on a.id = t.id where t.parent_id is not null
           ), locked as (
             select id
             from tasks
             where feature_id = $1 and state = 'failed' and children > 0 and id not in (select id from above)
             order by id
             for no key update
           )
           update tasks t
           -- What an attempt split is in progress until its parts are over.
           set state = case when t.attempt > 0 then 'in_progress'::task_state
                            when t.open_blockers > 0 then 'blocked'
                            else 'pending' end
           from locked
           where t.id = locked.id
           returning t.id, t.state as "state!: TaskState""#,
        feature.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Unfailed {
            id: TaskId(row.id),
            now: row.state,
        })
        .collect())
}

/// Holds the siblings of each of `failed`, and the siblings' descendants: started attempts continue, nothing
/// new starts.
pub async fn hold_beside(conn: &mut PgConnection, feature: FeatureId, failed: &[Uuid]) -> sqlx::Result<()> {
    let beside = sqlx::query_scalar!(
        r#"with recursive failures as (
           select parent_id, (array_agg(id))[1] as one, count(*) as n
           from tasks
           where id = any($2) and role = 'work'
           group by parent_id
         ), beside as (
           select t.id
           from tasks t
           join failures f on t.parent_id = f.parent_id or (t.parent_id is null and f.parent_id is null)
           where t.feature_id = $1 and t.role = 'work' and (f.n > 1 or t.id <> f.one)
           union
           select t.id from tasks t join beside on t.parent_id = beside.id
         ), marked as (
           update tasks set held = true
           where id in (select id from beside) and not held and state not in ('done', 'skipped', 'cancelled', 'failed')
         )
         -- What may stand in the queue.
         select t.id from beside join tasks t on t.id = beside.id where t.state = 'pending'"#,
        feature.0,
        failed,
    )
    .fetch_all(&mut *conn)
    .await?;
    // A separate statement, which sees tasks that a claim put back while the first statement waited for it.
    sqlx::query!(
        "delete from ready_tasks where task_id = any($1) and kind not in ('verify', 'integrate')",
        &beside,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Holds the `new` tasks that are siblings of a failed task, or below a held one, under the policy `stop`.
pub async fn hold_new(conn: &mut PgConnection, new: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with recursive kept as (
           select t.id
           from tasks t
           join features f on f.id = t.feature_id and f.failure_policy = 'stop'
           where t.id = any($1) and t.role = 'work'
             and ((select p.held from tasks p where p.id = t.parent_id)
                  or exists (select 1 from tasks s
                             where s.feature_id = t.feature_id and s.parent_id is not distinct from t.parent_id
                               and s.state = 'failed' and s.children = 0 and s.role = 'work'))
           union
           select t.id from tasks t join kept on t.parent_id = kept.id
         )
         update tasks set held = true where id in (select id from kept)",
        new,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Releases tasks that no failure holds any more, and the tasks in `anyway`; returns them.
pub async fn release_held(
    conn: &mut PgConnection,
    feature: FeatureId,
    anyway: &[Uuid],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive failures as (
             select parent_id, (array_agg(id))[1] as one, count(*) as n
             from tasks
             where feature_id = $1 and state = 'failed' and children = 0 and role = 'work'
             group by parent_id
           ), still as (
             select t.id
             from tasks t
             join failures f on t.parent_id = f.parent_id or (t.parent_id is null and f.parent_id is null)
             where t.feature_id = $1 and t.role = 'work' and (f.n > 1 or t.id <> f.one)
             union
             select t.id from tasks t join still on t.parent_id = still.id
           )
           update tasks set held = false
           where feature_id = $1 and held and (id = any($2) or id not in (select id from still))
           returning id"#,
        feature.0,
        anyway,
    )
    .fetch_all(conn)
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

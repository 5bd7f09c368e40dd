//! Branch operations without an agent, and landings (DESIGN 6).

use std::collections::HashMap;

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::wire::{GitOperation, MergeHow};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::integration::{Collision, IntegrationState};

/// Branch operations of tasks.
pub async fn of_tasks(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<HashMap<TaskId, GitOperation>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"select task_id, operation as "operation!: Json<GitOperation>"
           from task_texts
           where task_id = any($1) and operation is not null"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.task_id), row.operation.0))
        .collect())
}

pub async fn set(conn: &mut PgConnection, task: TaskId, operation: &GitOperation) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts set operation = $2 where task_id = $1",
        task.0,
        Json(operation) as Json<&GitOperation>,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Allows a dispatch to push; `false` when it is over.
pub async fn decide(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<bool> {
    let decided = sqlx::query!(
        "update dispatches set decided_at = coalesce(decided_at, now()) where id = $1 and state in ('live', 'lost')",
        dispatch.0,
    )
    .execute(conn)
    .await?;
    Ok(decided.rows_affected() == 1)
}

/// State of the pushes that a task's dispatches were allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushes {
    /// There was no push, or a worker has checked the branch since.
    Known,
    /// The current dispatch may push, and has not reported the result.
    UnderWay,
    /// A push may have arrived: its worker could not find out, or was lost and may return.
    InDoubt,
}

pub async fn pushes(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Pushes> {
    let is_under_way = sqlx::query_scalar!(
        r#"select bool_or(d.id is not distinct from t.dispatch_id and d.state = 'live') as "is_under_way?"
           from tasks t join dispatches d on d.task_id = t.id
           where t.id = $1 and d.kind = 'git' and d.decided_at is not null"#,
        task.0,
    )
    .fetch_one(conn)
    .await?;
    Ok(match is_under_way {
        None => Pushes::Known,
        Some(true) => Pushes::UnderWay,
        Some(false) => Pushes::InDoubt,
    })
}

/// Records that the results of all pushes of a task are known.
pub async fn resolve_pushes(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches set decided_at = null where task_id = $1 and decided_at is not null",
        task.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The end of a branch operation without a turn.
#[derive(Debug, Clone)]
pub struct OperationEnd {
    pub feature: FeatureId,
    pub task: TaskId,
    pub attempt: i32,
    /// The landed commit, or the one that conflicts.
    pub commit: String,
    /// Its ref (full name).
    pub commit_ref: String,
    /// [`IntegrationState::Merged`] or [`IntegrationState::Conflict`].
    pub state: IntegrationState,
    pub collision: Collision,
}

/// Records the end among the integrations.
pub async fn note(conn: &mut PgConnection, ended: &OperationEnd) -> sqlx::Result<()> {
    let landed = (ended.state == IntegrationState::Merged).then_some(&ended.commit);
    sqlx::query!(
        "insert into integrations
           (id, feature_id, task_id, attempt, source_commit, source_ref, state, landed_commit, conflict_paths, collided,
            queued_at, ended_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp(), clock_timestamp())",
        Uuid::now_v7(),
        ended.feature.0,
        ended.task.0,
        ended.attempt,
        ended.commit,
        ended.commit_ref,
        ended.state as IntegrationState,
        landed,
        &ended.collision.paths,
        &ended.collision.others,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes this commit the feature's base: commits between it and the branch are the feature's.
pub async fn rebase(conn: &mut PgConnection, feature: FeatureId, commit: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update features set base_commit = $2 where id = $1 and $2 ~ '^[0-9a-f]{40,64}$'",
        feature.0,
        commit,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug, Clone)]
pub struct Landing {
    pub task: TaskId,
    pub title: String,
    pub commit: String,
}

/// Landed tasks that waited for `task` or an ancestor, directly or not; the last landing first. For a parent
/// that waited, its parts.
pub async fn landed_after(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<Landing>> {
    let rows = sqlx::query!(
        r#"with recursive after(id, whole) as (
             select $1::uuid, false
             union
             select x.id, x.whole
             from after a
             cross join lateral (
               select d.task_id as id, true as whole from dependencies d where d.blocker_id = a.id
               union all
               select c.id, true from tasks c where a.whole and c.parent_id = a.id
               union all
               select t.parent_id, false from tasks t where t.id = a.id and t.parent_id is not null
             ) x
           )
           select i.task_id, x.title, i.landed_commit as "commit!"
           from (select distinct id from after where id <> $1) after
           join integrations i on i.task_id = after.id and i.state = 'merged'
           join task_texts x on x.task_id = i.task_id
           order by i.ended_at desc"#,
        task.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Landing {
            task: TaskId(row.task_id),
            title: row.title,
            commit: row.commit,
        })
        .collect())
}

/// The landing of a task, unless it was reverted.
pub async fn landing(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<Landing>> {
    let row = sqlx::query!(
        r#"select x.title, i.landed_commit as "commit!"
           from integrations i join task_texts x on x.task_id = i.task_id
           where i.task_id = $1 and i.state = 'merged'"#,
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Landing {
        task,
        title: row.title,
        commit: row.commit,
    }))
}

/// Removes the edges of a task's dependents that started from its landing, so that they continue without
/// waiting again. Returns these dependents. A parent keeps its edge: its started parts continue anyway, and
/// the others wait.
pub async fn let_go(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<TaskId>> {
    let ids = sqlx::query_scalar!(
        "delete from dependencies d
         using tasks t
         where d.blocker_id = $1 and t.id = d.task_id
           and t.state = 'in_progress' and t.children = 0
         returning t.id",
        task.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(TaskId).collect())
}

/// Progress of a feature, without branch operations and gate checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Tasks that wait or are in progress.
    pub open: i64,
    /// Further tasks that wait for a person, or failed.
    pub stuck: i64,
    pub total: i64,
}

pub async fn progress(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Progress> {
    sqlx::query_as!(
        Progress,
        r#"select count(*) filter (where state in ('pending', 'blocked', 'in_progress')) as "open!",
                  count(*) filter (where state in ('needs_review', 'failed')) as "stuck!",
                  count(*) as "total!"
           from tasks
           where feature_id = $1 and role not in ('git', 'check')"#,
        feature.0,
    )
    .fetch_one(conn)
    .await
}

/// Records that the landing of a task with this commit was reverted: it may land again. Returns false, and
/// changes nothing, when another revert came first.
pub async fn take_back(conn: &mut PgConnection, task: TaskId, commit: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update integrations set state = 'reverted' where task_id = $1 and state = 'merged' and landed_commit = $2",
        task.0,
        commit,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Whether this commit is the task's present landing.
pub async fn is_landing(conn: &mut PgConnection, task: TaskId, commit: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select coalesce((
             select true from integrations where task_id = $1 and state = 'merged' and landed_commit = $2 limit 1
           ), false) as "is!""#,
        task.0,
        commit,
    )
    .fetch_one(conn)
    .await
}

pub async fn dispatches(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<DispatchId>> {
    let ids = sqlx::query_scalar!("select id from dispatches where task_id = $1", task.0)
        .fetch_all(conn)
        .await?;
    Ok(ids.into_iter().map(DispatchId).collect())
}

/// Unfinished branch operations of a feature.
pub async fn open(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<(TaskId, GitOperation)>> {
    let rows = sqlx::query!(
        r#"select t.id, x.operation as "operation!: Json<GitOperation>"
           from tasks t join task_texts x on x.task_id = t.id
           where t.feature_id = $1 and t.role = 'git' and t.state in ('pending', 'blocked', 'in_progress', 'needs_review')
             and x.operation is not null"#,
        feature.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.id), row.operation.0))
        .collect())
}

/// A feature's state in its repository.
#[derive(Debug, Clone)]
pub struct Branches {
    pub base_ref: String,
    pub repo_id: String,
    /// The last landed commit, also of a deleted task, and a hash of the landed tasks.
    pub last_landed: Option<String>,
    /// Number of all tasks that ever changed branches.
    pub operations: i64,
    /// Pool of its newest task.
    pub pool: String,
}

/// `None` without a repository or without tasks.
pub async fn branches(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<Branches>> {
    sqlx::query_as!(
        Branches,
        r#"select f.base_ref as "base_ref!", f.repo_id,
                  case when f.landed_at > l.ended_at then f.landed_commit else coalesce(l.landed_commit, f.landed_commit) end
                    as last_landed,
                  (select count(*) from tasks where feature_id = f.id and role = 'git') as "operations!",
                  x.pool
           from features f
           join lateral (select id from tasks where feature_id = f.id order by id desc limit 1) t on true
           join task_texts x on x.task_id = t.id
           left join lateral (
             select landed_commit, ended_at from integrations
             where feature_id = f.id and state = 'merged'
             order by ended_at desc
             limit 1
           ) l on true
           where f.id = $1 and f.repo_address is not null and f.base_ref is not null"#,
        feature.0,
    )
    .fetch_optional(conn)
    .await
}

/// Whether a merge of the feature brought its last landing, `head`, into `branch`, or a person ended the
/// final merge.
pub async fn is_merged(
    conn: &mut PgConnection,
    feature: FeatureId,
    branch: &str,
    head: &str,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (
             select 1 from tasks t join task_texts x on x.task_id = t.id
             where t.feature_id = $1 and t.role = 'git' and x.operation ->> 'operation' = 'merge'
               and x.operation ->> 'branch' = $2 and x.operation ->> 'head' = $3
               and (t.state = 'done'
                    or (t.state in ('skipped', 'cancelled', 'failed') and coalesce((x.operation ->> 'at_end')::boolean, false)))
           ) as "is!""#,
        feature.0,
        branch,
        head,
    )
    .fetch_one(conn)
    .await
}

/// How to merge the finished feature.
pub async fn merge_of(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<MergeHow>> {
    let word = sqlx::query_scalar!("select merge from features where id = $1", feature.0)
        .fetch_optional(conn)
        .await?
        .flatten();
    Ok(word.and_then(|word| word.parse().ok()))
}

/// Titles of landed tasks, in the order of landing.
pub async fn landed_titles(
    conn: &mut PgConnection,
    feature: FeatureId,
    most: i64,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "select x.title
         from integrations i join task_texts x on x.task_id = i.task_id join tasks t on t.id = i.task_id
         where i.feature_id = $1 and i.state = 'merged' and t.role <> 'git'
         order by i.ended_at
         limit $2",
        feature.0,
        most,
    )
    .fetch_all(conn)
    .await
}

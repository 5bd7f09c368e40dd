//! Tasks that change branches without an agent: what they do, and what landed (DESIGN 6).

use std::collections::HashMap;

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::wire::{GitOperation, MergeHow};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::integration::{Collision, IntegrationState};

/// What tasks do to branches.
pub async fn of_tasks(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<HashMap<TaskId, GitOperation>> {
    let rows = sqlx::query!(
        r#"select task_id, operation as "operation!: Json<GitOperation>"
           from task_texts
           where task_id = any($1) and operation is not null"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    let of = |row: (Uuid, Json<GitOperation>)| (TaskId(row.0), row.1.0);
    Ok(rows
        .into_iter()
        .map(|row| of((row.task_id, row.operation)))
        .collect())
}

/// Changes what a task does to a branch.
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

/// Lets a dispatch push; `false` when it is over.
pub async fn decide(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<bool> {
    let decided = sqlx::query!(
        "update dispatches set decided_at = coalesce(decided_at, now()) where id = $1 and state in ('live', 'lost')",
        dispatch.0,
    )
    .execute(conn)
    .await?;
    Ok(decided.rows_affected() == 1)
}

/// What is known of the pushes that dispatches of a task were let do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushes {
    /// There was none, or somebody has looked since what came of it.
    Known,
    /// The current dispatch was let push, and has yet to say what came of it.
    UnderWay,
    /// One may have arrived: whose it was could not find out, or was lost and may be heard again.
    InDoubt,
}

/// What is known of a task's pushes.
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

/// Somebody looked what came of all pushes of a task.
pub async fn found_out(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches set decided_at = null where task_id = $1 and decided_at is not null",
        task.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// What became of a change of the feature's branch that took no turn.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Ended {
    pub feature: FeatureId,
    pub task: TaskId,
    pub attempt: i32,
    /// The commit that landed, or that conflicts.
    pub commit: String,
    /// The ref (whole name) on which it stands.
    pub commit_ref: String,
    /// [`IntegrationState::Merged`] or [`IntegrationState::Conflict`].
    pub state: IntegrationState,
    pub collision: Collision,
}

/// Notes it among the integrations.
pub async fn note(conn: &mut PgConnection, ended: &Ended) -> sqlx::Result<()> {
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

/// The feature's base is this commit from now on: what lies between it and the branch is the feature's.
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

/// A landed task.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Landing {
    pub task: TaskId,
    pub title: String,
    pub commit: String,
}

/// What waited for `task` or for a parent of it, directly or not, and landed; the last to land first. Of a parent that waited,
/// its parts did.
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
    let landing = |(task, title, commit)| Landing {
        task: TaskId(task),
        title,
        commit,
    };
    Ok(rows
        .into_iter()
        .map(|row| landing((row.task_id, row.title, row.commit)))
        .collect())
}

/// How a task landed, if it did and was not taken back.
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

/// Dependents of a task that were begun with what it landed go on without waiting for it again; those whose edge went. A parent waits for
/// it: what of its parts has begun goes on all the same, the others wait with it.
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

/// How far a feature is, without what changes branches or tries its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Tasks that wait or are worked on.
    pub open: i64,
    /// Those besides that wait for a person, or failed.
    pub stuck: i64,
    /// All.
    pub total: i64,
}

/// Reads how far a feature is.
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

/// The landing of a task with this commit was taken back: it may land again. Whether it was that of the task by now; else another
/// revert took it back before, and nothing is changed.
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

/// Whether a task's landing by now is this commit.
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

/// The dispatches of a task.
pub async fn dispatches(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<DispatchId>> {
    let ids = sqlx::query_scalar!("select id from dispatches where task_id = $1", task.0)
        .fetch_all(conn)
        .await?;
    Ok(ids.into_iter().map(DispatchId).collect())
}

/// The tasks of a feature that change branches and are not over.
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

/// Where a feature stands with its repository.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Branches {
    pub base_ref: String,
    /// The commit that landed last, a deleted task's included, and what stands for the tasks that landed.
    pub last_landed: Option<String>,
    /// How many tasks changed branches, ever.
    pub operations: i64,
    /// Pool, retries and verification of its newest task.
    pub pool: String,
}

/// Reads where a feature stands; `None` without a repository or without tasks.
pub async fn branches(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<Branches>> {
    sqlx::query_as!(
        Branches,
        r#"select f.base_ref as "base_ref!",
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

/// Whether what landed last, `head`, is in `branch` by a merge of the feature, or a person ended the one that the feature's
/// end had asked for.
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

/// How the finished feature is merged.
pub async fn merge_of(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<MergeHow>> {
    let word = sqlx::query_scalar!("select merge from features where id = $1", feature.0)
        .fetch_optional(conn)
        .await?
        .flatten();
    Ok(word.and_then(|word| word.parse().ok()))
}

/// The titles of the tasks that landed, in their order.
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

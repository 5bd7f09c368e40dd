//! Results of gates on base commits, and the tasks that run these gates.

use std::collections::{HashMap, HashSet};

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::GitOperation;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::domain::gate::History;

/// How long a worker counts as present after a heartbeat.
const HEARD_SECONDS: f64 = 60.0;
const RETENTION_DAYS: i32 = 90;

/// The base of a feature with a repository.
#[derive(Debug, Clone)]
pub struct Base {
    pub repo_id: String,
    pub commit: String,
    /// The pool of its newest task.
    pub pool: String,
    /// The task that runs the gate, finished or not.
    pub check: Option<TaskId>,
    /// Number of such tasks so far.
    pub checks: i64,
}

/// Reads a feature's base; `None` without a repository or without tasks.
pub async fn base(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<Base>> {
    let row = sqlx::query!(
        r#"select f.repo_id, f.base_commit as "commit!", f.check_task, x.pool,
                  (select count(*) from tasks where feature_id = f.id and role = 'check') as "checks!"
           from features f
           join lateral (select id from tasks where feature_id = f.id order by id desc limit 1) t on true
           join task_texts x on x.task_id = t.id
           where f.id = $1 and f.repo_address is not null and f.base_commit is not null"#,
        feature.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Base {
        repo_id: row.repo_id,
        commit: row.commit,
        pool: row.pool,
        check: row.check_task.map(TaskId),
        checks: row.checks,
    }))
}

#[derive(Debug, Clone)]
pub struct Checked {
    pub repo_id: String,
    pub commit: String,
    pub gate: Vec<String>,
    /// The failed command and the end of its output; `None` after a pass.
    pub failed: Option<(String, String)>,
    pub worker: String,
    pub duration_ms: i64,
}

/// Stores a result, replaces the older one, and deletes results that were not used for long.
pub async fn keep(conn: &mut PgConnection, checked: &Checked) -> sqlx::Result<()> {
    let (command, output) = checked.failed.clone().unzip();
    sqlx::query!(
        "with old as (
           delete from gate_checks
           where repo_id = $1 and checked_at < now() - make_interval(days => $9)
             and (base_commit <> $2 or gate_hash <> md5(array_to_json($3::text[])::text))
         )
         insert into gate_checks (repo_id, base_commit, gate_hash, passed, command, output, worker, duration_ms)
         values ($1, $2, md5(array_to_json($3::text[])::text), $4, $5, $6, $7, $8)
         on conflict (repo_id, base_commit, gate_hash) do update
         set passed = $4, command = $5, output = $6, worker = $7, duration_ms = $8, checked_at = clock_timestamp()",
        checked.repo_id,
        checked.commit,
        &checked.gate,
        checked.failed.is_none(),
        command,
        output,
        checked.worker,
        checked.duration_ms,
        RETENTION_DAYS,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether a gate is known to pass on a commit.
pub async fn passes(
    conn: &mut PgConnection,
    repo_id: &str,
    commit: &str,
    gate: &[String],
) -> sqlx::Result<bool> {
    let passes = sqlx::query_scalar!(
        "select passed from gate_checks
         where repo_id = $1 and base_commit = $2 and gate_hash = md5(array_to_json($3::text[])::text)",
        repo_id,
        commit,
        gate,
    )
    .fetch_optional(conn)
    .await?;
    Ok(passes.unwrap_or(false))
}

/// The features whose gate is known to fail on their base.
pub async fn fails(conn: &mut PgConnection, features: &[Uuid]) -> sqlx::Result<HashSet<FeatureId>> {
    let ids = sqlx::query_scalar!(
        "select f.id
         from unnest($1::uuid[]) as wanted(id)
         cross join lateral (
           select id, repo_id, base_commit, current_run from features where id = wanted.id limit 1
         ) f
         join runs r on r.id = f.current_run
         join gate_checks g
           on g.repo_id = f.repo_id and g.base_commit = f.base_commit and g.gate_hash = md5(array_to_json(r.gate)::text)
         where not g.passed",
        features,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(FeatureId).collect())
}

/// Deletes the result that a gate passes on a commit.
pub async fn doubt(
    conn: &mut PgConnection,
    repo_id: &str,
    commit: &str,
    gate: &[String],
) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from gate_checks
         where repo_id = $1 and base_commit = $2 and gate_hash = md5(array_to_json($3::text[])::text) and passed",
        repo_id,
        commit,
        gate,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn set_task(conn: &mut PgConnection, feature: FeatureId, task: TaskId) -> sqlx::Result<()> {
    sqlx::query!(
        "update features set check_task = $2 where id = $1",
        feature.0,
        task.0
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// An unfinished check: nothing of its feature lands meanwhile.
#[derive(Debug, Clone)]
pub struct OpenCheck {
    pub task: TaskId,
    pub operation: GitOperation,
    /// Whether it waits for a person.
    pub waits: bool,
    /// Whether the gate is known to fail on the base.
    pub fails: bool,
}

/// The unfinished checks of features.
pub async fn open(conn: &mut PgConnection, features: &[Uuid]) -> sqlx::Result<HashMap<FeatureId, OpenCheck>> {
    let rows = sqlx::query!(
        r#"select f.id, t.id as task_id, x.operation as "operation!: Json<GitOperation>",
                  t.state in ('failed', 'needs_review') as "waits!",
                  (g.passed is false) as "fails!"
           from unnest($1::uuid[]) as wanted(id)
           cross join lateral (select id, repo_id, check_task from features where id = wanted.id limit 1) f
           cross join lateral (
             select id, state from tasks
             where id = f.check_task and state not in ('done', 'skipped', 'cancelled')
             limit 1
           ) t
           join task_texts x on x.task_id = t.id
           left join gate_checks g
             on g.repo_id = f.repo_id and g.base_commit = x.operation ->> 'commit'
             and g.gate_hash = md5(array_to_json(array(select jsonb_array_elements_text(x.operation -> 'gate')))::text)
           where x.operation is not null"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    let open = rows.into_iter().map(|row| {
        let open = OpenCheck {
            task: TaskId(row.task_id),
            operation: row.operation.0,
            waits: row.waits,
            fails: row.fails,
        };
        (FeatureId(row.id), open)
    });
    Ok(open.collect())
}

pub async fn slots(conn: &mut PgConnection, pool: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select coalesce(sum(slots), 0)::bigint as "slots!"
           from workers
           where $1 = any(pools) and not draining and seen_at > now() - make_interval(secs => $2)"#,
        pool,
        HEARD_SECONDS,
    )
    .fetch_one(conn)
    .await
}

/// Moves checks that wait behind their feature's work to the front, when something waits to land or their
/// pool now has several slots.
pub async fn hurry(conn: &mut PgConnection, features: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with late as (
           update tasks t
           set priority = -2147483647
           from unnest($1::uuid[]) as wanted(id)
           cross join lateral (select check_task from features where id = wanted.id limit 1) f
           where t.id = f.check_task and t.state = 'pending' and t.priority > -2147483647
             and coalesce(
               (select true from integrations i where i.feature_id = wanted.id and i.state in ('waiting', 'turn') limit 1),
               (select sum(w.slots) > 1
                from workers w
                join task_texts x on x.task_id = f.check_task and x.pool = any(w.pools)
                where not w.draining and w.seen_at > now() - make_interval(secs => $2)))
           returning t.id
         )
         update ready_tasks q
         set priority = -2147483647
         from late
         where q.task_id = late.id",
        features,
        HEARD_SECONDS,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes undecided integrations of a feature, and their own checks, out of the queue. They wait for the check
/// of the base.
pub async fn hold_back(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from ready_tasks q
         using integrations i
         where q.feature_id = $1 and q.kind in ('integrate', 'check') and i.task_id = q.task_id and i.state in ('waiting', 'turn')",
        feature.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Facts to judge the gate's refusal of an attempt.
pub async fn history(conn: &mut PgConnection, feature: FeatureId, task: TaskId) -> sqlx::Result<History> {
    let checking = !open(&mut *conn, &[feature.0]).await?.is_empty();
    let changed = sqlx::query_scalar!(
        r#"select distinct path as "path!"
           from dispatches d cross join lateral unnest(d.files_changed) as path
           where d.task_id = $1"#,
        task.0,
    )
    .fetch_all(&mut *conn)
    .await?;
    let refused = refused(conn, feature).await?;
    Ok(History {
        checking,
        changed,
        before: refused
            .into_iter()
            .map(|refused| (refused.task, refused.signature))
            .collect(),
    })
}

/// An attempt that the gate refused.
#[derive(Debug, Clone)]
pub struct Refused {
    pub task: TaskId,
    pub attempt: i32,
    pub integration: Uuid,
    pub signature: String,
}

/// Refusals by a feature's gate since the last landing or check of the base, oldest first. Omits refusals
/// that name the task's own files.
pub async fn refused(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<Refused>> {
    sqlx::query_as!(
        Refused,
        r#"select i.task_id as "task: TaskId", i.attempt, i.id as integration, i.gate_signature as "signature!"
           from integrations i
           where i.feature_id = $1 and i.state = 'gate_failed' and i.gate_signature is not null
             and i.ended_at > greatest(
               (select max(m.ended_at) from integrations m where m.feature_id = $1 and m.state = 'merged'),
               (select max(g.checked_at)
                from features f join gate_checks g on g.repo_id = f.repo_id and g.base_commit = f.base_commit
                where f.id = $1),
               '-infinity')
           order by i.ended_at"#,
        feature.0,
    )
    .fetch_all(conn)
    .await
}

/// Reopens integrations that the gate refused; the refusal does not count.
pub async fn reopen(conn: &mut PgConnection, integrations: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set state = 'waiting', ended_at = null, gate_signature = null, dispatch_id = null
         where id = any($1)",
        integrations,
    )
    .execute(conn)
    .await?;
    Ok(())
}

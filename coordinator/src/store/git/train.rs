//! Trains: the attempts that wait to land on a branch, their checks, and trees on which a gate passed.

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Ahead, FailedTree, PassedTree};
use sqlx::PgConnection;
use uuid::Uuid;

use super::integration::IntegrationState;
use crate::domain::train::{Car, Check, CheckResult, Landed, Landing, Stand, Train};

/// Past landings to read. Older checks prove nothing any more.
const LANDINGS: i64 = 256;
/// Trees with a passed gate that an order names, newest first.
const TREES: i64 = 100;
/// Queue priority of a speculative check: behind all other work.
pub const SPECULATION: i32 = i32::MAX;
/// Queue priority of a check on which a landing waits: behind its feature's work that waits for at most half
/// an hour.
pub const AWAITED: i32 = i32::MAX - 1;

/// Running features with a gate and attempts to land: their trains are planned.
pub async fn planned(
    conn: &mut PgConnection,
    features: &[Uuid],
) -> sqlx::Result<Vec<(FeatureId, Landing, i32)>> {
    let rows = sqlx::query!(
        r#"select f.id as "id!", r.landing as "landing!", r.max_speculation as "max_speculation!"
           from unnest($1::uuid[]) as wanted(id)
           cross join lateral (
             select id, current_run, check_task, state, repo_address from features where id = wanted.id limit 1
           ) f
           cross join lateral (
             select landing, max_speculation, gate from runs where id = f.current_run limit 1
           ) r
           where f.state = 'running' and f.repo_address is not null and r.gate <> '{}'
             -- Until the gate is known to pass on the base, its word on anything else says little.
             and not exists (
               select 1 from tasks c where c.id = f.check_task and c.state not in ('done', 'skipped', 'cancelled')
             )
             and (select true from integrations i
                  where i.feature_id = f.id and i.state in ('waiting', 'turn', 'decided') limit 1)"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let landing = row.landing.parse().unwrap_or_default();
            (FeatureId(row.id), landing, row.max_speculation)
        })
        .collect())
}

/// Reads a feature's train, in the order of [`super::integration::next_turns`].
pub async fn read(
    conn: &mut PgConnection,
    feature: FeatureId,
    landing: Landing,
    max_checks: i32,
) -> sqlx::Result<Train> {
    let cars = cars(conn, feature).await?;
    let mut landed = landed(conn, feature).await?;
    let from_the_start = landed.len() < usize::try_from(LANDINGS).unwrap_or(usize::MAX);
    if !from_the_start {
        landed.remove(0);
    }
    Ok(Train {
        landing,
        max_checks: usize::try_from(max_checks).unwrap_or(0),
        cars,
        landed,
        from_the_start,
    })
}

async fn cars(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<Car>> {
    let rows = sqlx::query!(
        r#"select i.id, i.state as "state: IntegrationState", i.dispatch_id, i.ahead, i.ahead_since,
                  i.check_result as "check_result: CheckResult", q.kind as "queued?: SessionKind",
                  t.failures > 0 as "failed_before!"
           from integrations i
           join tasks t on t.id = i.task_id
           left join ready_tasks q on q.task_id = i.task_id
           where i.feature_id = $1 and i.state in ('waiting', 'turn', 'decided')
           order by i.state = 'waiting', t.conflicts < 2, t.priority, i.queued_at, i.id"#,
        feature.0,
    )
    .fetch_all(conn)
    .await?;
    let cars = rows.into_iter().map(|row| Car {
        id: row.id,
        stand: match (row.state, row.queued) {
            (IntegrationState::Waiting, Some(SessionKind::Check)) => Stand::Queued,
            (IntegrationState::Waiting, Some(_)) => Stand::Lands,
            (IntegrationState::Waiting, None) if row.dispatch_id.is_some() => Stand::Checks,
            (IntegrationState::Waiting, None) => Stand::Waits,
            _ => Stand::Lands,
        },
        check: row.ahead.map(|ahead| Check {
            ahead,
            since: row.ahead_since,
            result: row.check_result,
        }),
        failed_before: row.failed_before,
    });
    Ok(cars.collect())
}

/// The last landings, oldest first.
async fn landed(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<Landed>> {
    let rows = sqlx::query!(
        r#"select id, old is not null and old = lag(landed_commit) over (order by ended_at, id) as "follows"
           from (
             select id, old, landed_commit, ended_at
             from integrations
             where feature_id = $1 and state in ('merged', 'reverted')
             order by ended_at desc, id desc
             limit $2
           ) newest
           order by ended_at, id"#,
        feature.0,
        LANDINGS,
    )
    .fetch_all(conn)
    .await?;
    let landed = rows.into_iter().map(|row| Landed {
        id: row.id,
        follows: row.follows.unwrap_or(false),
    });
    Ok(landed.collect())
}

/// Takes queued checks of these integrations out of the queue, except those that a claim took meanwhile.
pub async fn withdraw(conn: &mut PgConnection, integrations: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from ready_tasks q
         using integrations i
         where i.id = any($1) and q.task_id = i.task_id and q.kind = 'check'",
        integrations,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The tasks of these integrations whose check runs.
pub async fn checking(conn: &mut PgConnection, integrations: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select task_id from integrations where id = any($1) and state = 'waiting' and dispatch_id is not null",
        integrations,
    )
    .fetch_all(conn)
    .await
}

/// Forgets the checks of these tasks' attempts. Counts them as wasted if `wasted`.
pub async fn forget(conn: &mut PgConnection, tasks: &[Uuid], wasted: bool) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set ahead = null, ahead_since = null, check_result = null, dispatch_id = null,
             checks_wasted = checks_wasted + $2::bool::int
         where task_id = any($1) and state = 'waiting'",
        tasks,
        wasted,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Allows the turns of these integrations, and of no others of their feature.
pub async fn clear(conn: &mut PgConnection, feature: FeatureId, integrations: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set cleared = id = any($2)
         where feature_id = $1 and state in ('waiting', 'turn', 'decided') and cleared <> (id = any($2))",
        feature.0,
        integrations,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Queues the check of an integration together with the attempts `ahead`. Returns the pool that has work;
/// `None` when the task has a dispatch or is queued already.
pub async fn enqueue(
    conn: &mut PgConnection,
    integration: Uuid,
    ahead: &[Uuid],
    priority: i32,
) -> sqlx::Result<Option<String>> {
    let pool = sqlx::query_scalar!(
        "insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority, key, not_before, since)
         select t.id, t.feature_id, x.pool, 'check', agent_needed('check', x.agent, r.agent), $2, '', now(), i.queued_at
         from integrations i
         join tasks t on t.id = i.task_id
         join task_texts x on x.task_id = t.id
         join features f on f.id = t.feature_id
         left join runs r on r.id = f.current_run
         where i.id = $1 and i.state = 'waiting' and i.dispatch_id is null
           and t.state = 'in_progress' and t.next_kind = 'integrate' and f.state = 'running'
         on conflict (task_id) do nothing
         returning pool",
        integration,
        priority,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if pool.is_some() {
        sqlx::query!(
            "update integrations i
             set ahead = $2, check_result = null,
                 ahead_since = (
                   select l.id from integrations l
                   where l.feature_id = i.feature_id and l.state in ('merged', 'reverted')
                   order by l.ended_at desc, l.id desc
                   limit 1
                 )
             where i.id = $1",
            integration,
            ahead,
        )
        .execute(conn)
        .await?;
    }
    Ok(pool)
}

/// Records the dispatches that check these tasks' attempts.
pub async fn begin(conn: &mut PgConnection, tasks: &[Uuid], dispatches: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations i
         set dispatch_id = g.dispatch_id, checks = checks + 1
         from unnest($1::uuid[], $2::uuid[]) as g(task_id, dispatch_id)
         where i.task_id = g.task_id and i.state = 'waiting'",
        tasks,
        dispatches,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug, Clone)]
pub struct CheckEnd {
    pub task: TaskId,
    pub dispatch: DispatchId,
    /// `None`: the check is forgotten.
    pub result: Option<CheckResult>,
    /// Set where the gate failed.
    pub failed: Option<FailedTree>,
}

pub async fn end(conn: &mut PgConnection, end: &CheckEnd) -> sqlx::Result<()> {
    let failed = end.failed.as_ref();
    sqlx::query!(
        "update integrations
         set dispatch_id = null, check_result = $3, checked_at = now(),
             ahead = case when $3::check_result is null then null else ahead end,
             checked_tree = $4, check_command = $5, check_output = $6
         where task_id = $1 and dispatch_id = $2 and state = 'waiting'",
        end.task.0,
        end.dispatch.0,
        end.result as Option<CheckResult>,
        failed.map(|failed| failed.tree.as_str()),
        failed.map(|failed| failed.command.as_str()),
        failed.map(|failed| failed.output.as_str()),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Facts for a car's order.
#[derive(Debug, Clone, Default)]
pub struct CarFacts {
    pub ahead: Vec<Ahead>,
    pub passed: Vec<PassedTree>,
    pub failed: Option<FailedTree>,
}

/// The facts for an integration; empty without a gate.
pub async fn known(
    conn: &mut PgConnection,
    integration: Uuid,
    repo_id: &str,
    gate: &[String],
    landing: Landing,
) -> sqlx::Result<CarFacts> {
    if gate.is_empty() {
        return Ok(CarFacts::default());
    }
    let ahead = sqlx::query!(
        r#"select o.task_id, o.source_commit, o.source_ref
           from integrations i
           cross join lateral unnest(i.ahead) with ordinality as a(id, n)
           join integrations o on o.id = a.id
           where i.id = $1
           order by a.n"#,
        integration,
    )
    .fetch_all(&mut *conn)
    .await?;
    let passed = passed(&mut *conn, repo_id, gate, landing == Landing::Batch).await?;
    let failed = sqlx::query!(
        r#"select checked_tree as "tree!", check_command as "command!", check_output as "output!"
           from integrations
           where id = $1 and check_result = 'failed' and checked_tree is not null and check_command is not null
             and check_output is not null"#,
        integration,
    )
    .fetch_optional(conn)
    .await?;
    Ok(CarFacts {
        ahead: ahead
            .into_iter()
            .map(|row| Ahead {
                task: TaskId(row.task_id),
                commit: row.source_commit,
                commit_ref: row.source_ref,
            })
            .collect(),
        passed,
        failed: failed.map(|row| FailedTree {
            tree: row.tree,
            command: row.command,
            output: row.output,
        }),
    })
}

/// The newest trees on which a gate passed. Trees that passed within a batch count only with `in_batches`.
pub async fn passed(
    conn: &mut PgConnection,
    repo_id: &str,
    gate: &[String],
    in_batches: bool,
) -> sqlx::Result<Vec<PassedTree>> {
    let rows = sqlx::query!(
        "select base_commit as tree, tip from gate_checks
         where repo_id = $1 and gate_hash = md5(array_to_json($2::text[])::text) and passed
           and (tip is null or $4)
         order by checked_at desc
         limit $3",
        repo_id,
        gate,
        TREES,
        in_batches,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| PassedTree {
            tree: row.tree,
            tip: row.tip,
        })
        .collect())
}

/// A gate's run on a tree.
#[derive(Debug, Clone)]
pub struct Ran {
    pub repo_id: String,
    pub gate: Vec<String>,
    pub tree: String,
    /// Earlier trees of the batch, which share the result.
    pub covered: Vec<String>,
    /// The command that failed, and the end of its output; `None` after a pass.
    pub failed: Option<(String, String)>,
    pub failures: i32,
    pub worker: String,
    pub duration_ms: i64,
}

/// Records a run. A tree on which the gate passed once stays passed.
pub async fn keep(conn: &mut PgConnection, ran: &Ran) -> sqlx::Result<()> {
    if let Some((command, output)) = &ran.failed {
        sqlx::query!(
            "insert into gate_checks as known
               (repo_id, base_commit, gate_hash, passed, command, output, worker, duration_ms, failures)
             values ($1, $2, md5(array_to_json($3::text[])::text), false, $5, $6, $7, $8, $4)
             on conflict (repo_id, base_commit, gate_hash) do update
             set failures = known.failures + excluded.failures",
            ran.repo_id,
            ran.tree,
            &ran.gate,
            ran.failures,
            command,
            output,
            ran.worker,
            ran.duration_ms,
        )
        .execute(conn)
        .await?;
        return Ok(());
    }
    let trees: Vec<String> = ran.covered.iter().chain([&ran.tree]).cloned().collect();
    sqlx::query!(
        "insert into gate_checks as known
           (repo_id, base_commit, gate_hash, passed, worker, duration_ms, tip, passes, failures)
         select $1, of.tree, md5(array_to_json($3::text[])::text), true, $4, $5, nullif($6, of.tree),
                (of.tree = $6)::int, case when of.tree = $6 then $7::int else 0 end
         from (select distinct tree from unnest($2::text[]) as given(tree)) of
         on conflict (repo_id, base_commit, gate_hash) do update
         set passed = true, command = null, output = null, checked_at = clock_timestamp(),
             -- A run on the tree itself says more than one behind it.
             tip = case when excluded.tip is null or not known.passed then excluded.tip else known.tip end,
             passes = known.passes + excluded.passes, failures = known.failures + excluded.failures",
        ran.repo_id,
        &trees,
        &ran.gate,
        ran.worker,
        ran.duration_ms,
        ran.tree,
        ran.failures,
    )
    .execute(conn)
    .await?;
    Ok(())
}

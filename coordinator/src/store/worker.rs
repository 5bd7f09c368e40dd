//! Workers: identity, last heartbeat, drain.

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::ids::{DispatchId, Incarnation, TaskId};
use ralph_shared::wire::{AgentRule, ClosedAgent, DEFAULT_AGENT, Heartbeat, Hello};
use sqlx::PgConnection;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::failure::worker_health::EndedSession;

#[derive(Debug, Clone)]
pub struct Worker {
    pub name: String,
    pub incarnation: Incarnation,
    pub data_id: String,
    pub pools: Vec<String>,
    pub agents: Vec<String>,
    /// The account of each of its agents.
    pub accounts: BTreeMap<String, String>,
    /// Its rules for tasks without an agent.
    pub rules: Vec<AgentRule>,
    /// Its unavailable agents, as of its last heartbeat.
    pub doors: Vec<ClosedAgent>,
    pub slots: i32,
    pub free_slots: i32,
    pub draining: bool,
    pub drain_requested: bool,
    /// Why it was drained automatically, if it was.
    pub drain_reason: Option<String>,
    /// Size of the build output that it retains. Bytes.
    pub warm_bytes: Option<i64>,
    pub version: String,
    pub host: String,
    pub pid: i32,
    pub started_at: OffsetDateTime,
    pub seen_at: OffsetDateTime,
    /// Whether it sent a heartbeat within a lease.
    pub alive: bool,
}

/// Deletes workers that hold nothing and sent no heartbeat for `days`, or for `drained_minutes` after a
/// drain. In a cluster each start has a name of its own, and a drained worker does not come back, or says
/// hello again.
pub async fn forget_gone(conn: &mut PgConnection, days: i32, drained_minutes: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "with lives as (
           delete from worker_lives l
           where began_at < now() - make_interval(days => $1)
             and not exists (select from workers w where w.incarnation = l.incarnation)
             and not exists (select from dispatches d where d.incarnation = l.incarnation and d.state = 'live')
         )
         delete from workers
         where (seen_at < now() - make_interval(days => $1)
             or (draining or drain_requested) and seen_at < now() - make_interval(mins => $2))
           and name <> all(array(select worker from dispatches where state = 'live'))",
        days,
        drained_minutes,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes one worker, unless it sent a heartbeat within a lease or holds a dispatch. Returns whether it did.
pub async fn forget(conn: &mut PgConnection, name: &str, lease_ms: i64) -> sqlx::Result<bool> {
    let forgotten = sqlx::query!(
        "delete from workers
         where name = $1 and seen_at < now() - $2 * interval '1 millisecond'
           and name <> all(array(select worker from dispatches where state = 'live'))",
        name,
        lease_ms as f64,
    )
    .execute(conn)
    .await?;
    Ok(forgotten.rows_affected() > 0)
}

/// All known workers, by name.
pub async fn list(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<Vec<Worker>> {
    let rows = sqlx::query!(
        r#"select name, incarnation, data_id, pools, agents, accounts, doors as "doors: Json<Vec<ClosedAgent>>",
                  rules as "rules: Json<Vec<AgentRule>>", slots, free_slots, draining, drain_requested, drain_reason, warm_bytes, version, host,
                  pid, started_at, seen_at, seen_at > now() - $1 * interval '1 millisecond' as "alive!"
           from workers
           order by name"#,
        lease_ms as f64,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Worker {
            name: row.name,
            incarnation: Incarnation(row.incarnation),
            data_id: row.data_id,
            pools: row.pools,
            accounts: accounts(&row.agents, row.accounts),
            agents: row.agents,
            rules: row.rules.0,
            doors: row.doors.0,
            slots: row.slots,
            free_slots: row.free_slots,
            draining: row.draining,
            drain_requested: row.drain_requested,
            drain_reason: row.drain_reason,
            warm_bytes: row.warm_bytes,
            version: row.version,
            host: row.host,
            pid: row.pid,
            started_at: row.started_at,
            seen_at: row.seen_at,
            alive: row.alive,
        })
        .collect())
}

/// The incarnation that now has the name of a dispatch's worker, if its data folder is that of the
/// incarnation that holds the dispatch.
pub async fn heir(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Option<Incarnation>> {
    let life = sqlx::query_scalar!(
        "select w.incarnation
         from dispatches d
         join workers w on w.name = d.worker
         left join worker_lives l on l.incarnation = d.incarnation
         where d.id = $1 and coalesce(l.data_id, w.data_id) = w.data_id",
        dispatch.0
    )
    .fetch_optional(conn)
    .await?;
    Ok(life.map(Incarnation))
}

/// The incarnation that holds a worker's name.
#[derive(Debug, Clone)]
pub struct Holder {
    pub incarnation: Incarnation,
    pub data_id: String,
    pub drain_requested: bool,
    pub alive: bool,
}

/// Reads and locks the holder of a name.
pub async fn holder(conn: &mut PgConnection, name: &str, lease_ms: i64) -> sqlx::Result<Option<Holder>> {
    let row = sqlx::query!(
        r#"select incarnation, data_id, drain_requested, seen_at > now() - $2 * interval '1 millisecond' as "alive!"
           from workers
           where name = $1
           for update"#,
        name,
        lease_ms as f64,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Holder {
        incarnation: Incarnation(row.incarnation),
        data_id: row.data_id,
        drain_requested: row.drain_requested,
        alive: row.alive,
    }))
}

/// Makes an incarnation the holder of its name. A holder that gets no answer repeats its hello; orders since
/// the first one, such as a drain, stay.
pub async fn take_name(conn: &mut PgConnection, hello: &Hello) -> sqlx::Result<()> {
    sqlx::query!(
        "with life as (
           insert into worker_lives (incarnation, data_id) values ($2, $3) on conflict do nothing
         )
         insert into workers
           (name, incarnation, data_id, pools, agents, slots, free_slots, version, host, pid, accounts,
            rules)
         values ($1, $2, $3, $4, $5, $6, $6, $7, $8, $9, $10, $11)
         on conflict (name) do update
         set incarnation = $2, data_id = $3, pools = $4, agents = $5, slots = $6, free_slots = $6, version = $7,
             host = $8, pid = $9, accounts = $10, rules = $11, doors = case when workers.incarnation = $2 then workers.doors else '[]' end,
             draining = workers.incarnation = $2 and workers.draining,
             drain_requested = workers.incarnation = $2 and workers.drain_requested,
             drain_reason = case when workers.incarnation = $2 then workers.drain_reason end, seen_at = now(),
             started_at = case when workers.incarnation = $2 then workers.started_at else now() end",
        hello.worker,
        hello.incarnation.0,
        hello.data_id,
        &hello.pools,
        &hello.agents,
        i32::try_from(hello.slots).unwrap_or(i32::MAX),
        hello.version,
        hello.host,
        i32::try_from(hello.pid).unwrap_or(0),
        &hello.accounts,
        Json(&hello.rules) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records a heartbeat. Returns whether the worker has to drain; `None` when the incarnation does not hold
/// the name.
pub async fn seen(conn: &mut PgConnection, beat: &Heartbeat) -> sqlx::Result<Option<bool>> {
    sqlx::query_scalar!(
        "update workers
         set seen_at = now(), free_slots = $3, draining = $4, doors = $5, warm_bytes = coalesce($6, warm_bytes)
         where name = $1 and incarnation = $2
         returning drain_requested",
        beat.worker,
        beat.incarnation.0,
        i32::try_from(beat.free_slots).unwrap_or(i32::MAX),
        beat.draining,
        Json(&beat.doors) as _,
        beat.warm_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
    )
    .fetch_optional(conn)
    .await
}

/// A worker that claims.
#[derive(Debug, Clone)]
pub struct Claimer {
    pub name: String,
    pub incarnation: Incarnation,
    pub draining: bool,
    /// The account of each of its agents.
    pub accounts: BTreeMap<String, String>,
    /// Its rules for tasks without an agent.
    pub rules: Vec<AgentRule>,
}

/// The workers among `names`, whether any account is not open, and whether any limit besides those of runs
/// exists.
pub async fn claimers(conn: &mut PgConnection, names: &[String]) -> sqlx::Result<(Vec<Claimer>, bool, bool)> {
    let rows = sqlx::query!(
        r#"select name, incarnation, draining or drain_requested as "draining!", agents, accounts,
                  rules as "rules: Json<Vec<AgentRule>>", (select count(*) > 0 from (select from account_doors limit 1) d) as "any_door!",
                  (select count(*) > 0 from (select from budgets limit 1) b) as "any_budget!"
           from workers
           where name = any($1)"#,
        names,
    )
    .fetch_all(conn)
    .await?;
    let any_door = rows.iter().any(|row| row.any_door);
    let any_budget = rows.iter().any(|row| row.any_budget);
    let claimers = rows
        .into_iter()
        .map(|row| Claimer {
            name: row.name,
            incarnation: Incarnation(row.incarnation),
            draining: row.draining,
            accounts: accounts(&row.agents, row.accounts),
            rules: row.rules.0,
        })
        .collect();
    Ok((claimers, any_door, any_budget))
}

/// The account of each agent: by default its own name.
fn accounts(agents: &[String], accounts: Vec<String>) -> BTreeMap<String, String> {
    let mut accounts = accounts.into_iter();
    agents
        .iter()
        .map(|agent| (agent.clone(), accounts.next().unwrap_or_else(|| agent.clone())))
        .collect()
}

/// Asks a worker to drain. `false` when no worker has that name.
pub async fn request_drain(conn: &mut PgConnection, name: &str) -> sqlx::Result<bool> {
    let asked = sqlx::query!("update workers set drain_requested = true where name = $1", name)
        .execute(conn)
        .await?;
    Ok(asked.rows_affected() == 1)
}

#[derive(Debug, Default)]
pub struct Sessions {
    /// The newest first.
    pub sessions: Vec<EndedSession>,
    /// Reason of the newest failure.
    pub last: String,
}

/// Newest dispatches to search for ended sessions.
const NEWEST_DISPATCHES: i64 = 1_000;

/// Sessions that ended in the current incarnations of workers that accept work.
pub async fn ended(conn: &mut PgConnection) -> sqlx::Result<BTreeMap<String, Sessions>> {
    let rows = sqlx::query!(
        r#"select d.worker, d.task_id, d.failure as "failure: Failure", d.reason, coalesce(d.tool_calls, 0) = 0 as "before_work!",
                  d.failure is not null and exists (
                    select from dispatches o
                    where o.task_id = d.task_id and o.kind = d.kind and o.worker <> d.worker and o.outcome in ('done', 'passed')
                  ) as "done_elsewhere!"
           from (select * from dispatches order by id desc limit $1) d
           join workers w on w.name = d.worker and w.incarnation = d.incarnation and not (w.draining or w.drain_requested)
           where d.state = 'settled' and d.kind not in ('integrate', 'git', 'check')
           order by d.settled_at desc, d.id desc"#,
        NEWEST_DISPATCHES,
    )
    .fetch_all(conn)
    .await?;
    let mut workers: BTreeMap<String, Sessions> = BTreeMap::new();
    for row in rows {
        let worker = workers.entry(row.worker).or_default();
        if worker.last.is_empty() && row.failure.is_some() {
            worker.last = row.reason.unwrap_or_default();
            worker
                .last
                .truncate(worker.last.floor_char_boundary(ClosedAgent::REASON_BYTES));
        }
        worker.sessions.push(EndedSession {
            task: TaskId(row.task_id),
            failure: row.failure,
            before_work: row.before_work,
            done_elsewhere: row.done_elsewhere,
        });
    }
    Ok(workers)
}

/// Drains a worker on which everything fails, and writes a notice, if another living worker serves one of its
/// pools. Returns whether it did.
pub async fn drain_failing(
    conn: &mut PgConnection,
    name: &str,
    why: &str,
    lease_ms: i64,
) -> sqlx::Result<bool> {
    let drained = sqlx::query!(
        "with drained as (
           update workers w
           set drain_requested = true, drain_reason = $2
           where w.name = $1 and not w.drain_requested
             and exists (
               select from workers o
               where o.name <> w.name and o.pools && w.pools and not (o.draining or o.drain_requested)
                 and o.seen_at > now() - $3 * interval '1 millisecond'
             )
           returning w.name, w.pools
         )
         insert into notices (id, event, pool, reason)
         select $4, 'worker_drained', array_to_string(pools, ','), 'worker ' || name || ': ' || $2 from drained",
        name,
        why,
        lease_ms as f64,
        Uuid::now_v7(),
    )
    .execute(conn)
    .await?;
    Ok(drained.rows_affected() == 1)
}

/// Pools of living workers, with their slots.
pub async fn pools(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<Vec<(String, i64)>> {
    let rows = sqlx::query!(
        r#"select p.pool as "pool!", sum(w.slots)::bigint as "slots!"
           from workers w
           cross join lateral unnest(w.pools) as p(pool)
           where w.seen_at > now() - $1 * interval '1 millisecond'
           group by p.pool"#,
        lease_ms as f64,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.pool, row.slots)).collect())
}

/// The agents that workers have, or ever had, and the default one.
pub async fn known_agents(conn: &mut PgConnection) -> sqlx::Result<BTreeSet<String>> {
    let agents = sqlx::query_scalar!(r#"select distinct unnest(agents) as "agent!" from workers"#)
        .fetch_all(conn)
        .await?;
    Ok(agents.into_iter().chain([DEFAULT_AGENT.to_owned()]).collect())
}

/// The pools that workers serve, or ever served.
pub async fn known_pools(conn: &mut PgConnection) -> sqlx::Result<BTreeSet<String>> {
    let pools = sqlx::query_scalar!(r#"select distinct unnest(pools) as "pool!" from workers"#)
        .fetch_all(conn)
        .await?;
    Ok(pools.into_iter().collect())
}

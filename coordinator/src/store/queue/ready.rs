//! The queue of tasks that may be claimed.

use std::collections::HashMap;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::scheduling::capability::Capability;
use crate::store::git::train::SPECULATION;

// Integrations go before everything else (priority -2^31), since dependents wait for them. Then come
// verifications and branch operations (-2^31 + 1), and an early check of the gate. A task's own priority
// never reaches theirs, whatever its agent asked for.

/// Queues the `tasks` that may be worked on: pending leaves without blockers, not held, of a running feature,
/// no sooner than `delays_ms` from now. A verification or integration finishes started work and waits for
/// nothing. Returns the pools with new work, one entry per task.
pub async fn enqueue(
    conn: &mut PgConnection,
    tasks: &[Uuid],
    delays_ms: &[i64],
) -> sqlx::Result<Vec<String>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar!(
        r#"with waits as (
             -- What waits for a blocker as well keeps its pause until it is let go.
             update tasks t
             set not_before = now() + q.delay_ms * interval '1 millisecond'
             from unnest($1::uuid[], $2::bigint[]) as q(id, delay_ms)
             where t.id = q.id and q.delay_ms > 0 and t.state = 'blocked'
           )
           insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority, key, not_before, since)
           select t.id, t.feature_id, texts.pool, t.next_kind, agent_needed(t.next_kind, texts.agent, r.agent),
                  case t.next_kind when 'integrate' then -2147483648 when 'verify' then -2147483647 when 'git' then -2147483647
                                    when 'check' then t.priority else least(greatest(t.priority, -2147483646), 2147483645) end,
                  key_needed(t.next_kind, texts.concurrency, f.concurrency),
                  opens.at, coalesce((select since from path_holds where task_id = t.id limit 1), opens.at)
           from unnest($1::uuid[], $2::bigint[]) as q(id, delay_ms)
           cross join lateral (select * from tasks where id = q.id limit 1) t
           cross join lateral (select pool, agent, concurrency from task_texts where task_id = t.id limit 1) texts
           cross join lateral (select state, current_run, concurrency from features where id = t.feature_id limit 1) f
           left join lateral (select agent, only_task from runs where id = f.current_run limit 1) r on true
           cross join lateral (
             select greatest(now() + q.delay_ms * interval '1 millisecond',
                             case when t.state = 'pending' then t.not_before end) as at
           ) opens
           where f.state = 'running' and t.children = 0 and t.next_kind is not null
             and (r.only_task is null or t.next_kind in ('verify', 'integrate', 'check') or task_within(t.id, r.only_task))
             and (t.state = 'in_progress' and t.next_kind in ('verify', 'integrate')
                  or t.state = 'pending' and t.open_blockers = 0 and not t.held
                     and (t.conflicts < 2 or t.next_kind <> 'work'))
           on conflict (task_id) do nothing
           returning pool"#,
        tasks,
        delays_ms,
    )
    .fetch_all(conn)
    .await
}

/// Fills the queue for a feature whose `run` starts or continues. Omits tasks with a live dispatch, or with
/// an integration before its turn. The feature's row may still name another run.
pub async fn enqueue_feature(
    conn: &mut PgConnection,
    feature: FeatureId,
    run: Option<RunId>,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        r#"insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority, key, not_before, since)
           select t.id, t.feature_id, texts.pool, t.next_kind, agent_needed(t.next_kind, texts.agent, r.agent),
                  case t.next_kind when 'integrate' then -2147483648 when 'verify' then -2147483647 when 'git' then -2147483647
                                    when 'check' then t.priority else least(greatest(t.priority, -2147483646), 2147483645) end,
                  key_needed(t.next_kind, texts.concurrency, f.concurrency),
                  greatest(now(), t.not_before), greatest(now(), t.not_before)
           from tasks t
           join task_texts texts on texts.task_id = t.id
           join features f on f.id = t.feature_id
           left join runs r on r.id = $2
           where t.feature_id = $1 and t.children = 0
             and (r.only_task is null or t.next_kind in ('verify', 'check') or task_within(t.id, r.only_task))
             and (t.state = 'in_progress' and t.next_kind = 'verify'
                  or t.state = 'pending' and t.open_blockers = 0 and not t.held
                     and t.next_kind in ('work', 'spec', 'plan', 'build', 'review', 'distill', 'git', 'check')
                     and (t.conflicts < 2 or t.next_kind <> 'work'))
             and not exists (select 1 from dispatches d where d.id = t.dispatch_id and d.state = 'live')
           on conflict (task_id) do nothing
           returning pool"#,
        feature.0,
        run.map(|run| run.0),
    )
    .fetch_all(conn)
    .await
}

/// Removes the pauses of tasks that a person wants now.
pub async fn forget_pauses(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update tasks set not_before = null where id = any($1) and not_before is not null",
        tasks,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn withdraw(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!("delete from ready_tasks where task_id = any($1)", tasks)
        .execute(conn)
        .await?;
    Ok(())
}

/// Updates the agent of a feature's queued tasks to its run's. Waits for running claims: the second pass sees
/// tasks that those put back.
pub async fn follow_run(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<()> {
    for _pass in 0..2 {
        sqlx::query!(
            "update ready_tasks q
             set agent = agent_needed(q.kind, x.agent, r.agent)
             from task_texts x, runs r
             where q.feature_id = $1 and x.task_id = q.task_id and r.feature_id = q.feature_id and r.ended_at is null",
            feature.0,
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Remaining pause of a queued task; 0 when it is due or not queued.
pub async fn delay_ms(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<i64> {
    let delay = sqlx::query_scalar!(
        r#"select greatest(0, extract(epoch from not_before - now()) * 1000)::bigint as "delay_ms!"
           from ready_tasks
           where task_id = $1"#,
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(delay.unwrap_or(0))
}

/// Takes integrations out of the queue while a dispatch holds the turn.
pub async fn withdraw_held_turns(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from ready_tasks q
         using integrations i
         where q.task_id = any($1) and i.task_id = q.task_id and i.state in ('turn', 'decided')
           and i.dispatch_id is not null",
        tasks,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Empties the queue of a feature that stops. Waits for running claims: the second pass sees tasks that those
/// put back, and that nobody takes within their pause.
pub async fn withdraw_feature(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<()> {
    for _pass in 0..2 {
        sqlx::query!("delete from ready_tasks where feature_id = $1", feature.0)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

/// A task taken out of the queue.
#[derive(Debug, Clone)]
pub struct Dequeued {
    pub task: TaskId,
    pub feature: FeatureId,
    pub kind: SessionKind,
    pub priority: i32,
    /// Time for which it was claimable. Seconds.
    pub waited_s: f64,
    /// Concurrency key of its session.
    pub key: Option<String>,
}

/// Ready tasks to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyFilter {
    /// Verifications and integrations.
    FollowUps,
    /// Everything except speculation.
    Work,
    /// Checks ahead of their turn.
    Speculation,
}

impl ReadyFilter {
    /// First and last priority.
    fn priorities(self) -> (i32, i32) {
        match self {
            Self::FollowUps => (i32::MIN, i32::MIN + 1),
            Self::Work => (i32::MIN, SPECULATION - 1),
            Self::Speculation => (SPECULATION, SPECULATION),
        }
    }
}

/// Takes up to `n` of the best ready tasks of each feature, best first.
pub async fn take(
    conn: &mut PgConnection,
    offer: &Capability,
    shares: &[(FeatureId, u32)],
    look: ReadyFilter,
) -> sqlx::Result<Vec<Dequeued>> {
    let features: Vec<Uuid> = shares.iter().map(|(feature, _)| feature.0).collect();
    let counts: Vec<i64> = shares.iter().map(|(_, n)| i64::from(*n)).collect();
    let (first, last) = look.priorities();
    let rows = sqlx::query!(
        r#"with chosen as (
             select q.task_id, q.feature_id
             from unnest($1::uuid[], $2::bigint[]) as share(feature_id, n)
             cross join lateral (
               -- Pool by pool, agent by agent and key by key: so each look-up follows the index's order and ends after n.
               select best.*
               from open_keys(share.feature_id) k
               cross join unnest($3::text[]) as p(pool)
               cross join unnest($5::text[]) as a(agent)
               cross join lateral (
                 select task_id, feature_id, due
                 from ready_tasks
                 where pool = p.pool and agent = a.agent and feature_id = share.feature_id and key = k.key and not_before <= now()
                   and priority between $4 and $7
                   and (agent <> 'default' or pool || ' ' || kind::text <> all($6))
                 order by due, task_id
                 limit least(share.n, k.room)
                 for update skip locked
               ) best
               order by best.due, best.task_id
               limit share.n
             ) q
           ), gone as (
             delete from ready_tasks r
             using chosen
             where r.task_id = chosen.task_id
             returning r.task_id, r.feature_id, r.kind, r.priority, r.key, r.due, r.since
           )
           select task_id as "task_id!", feature_id as "feature_id!", kind as "kind!: SessionKind", priority as "priority!",
                  key as "key!", extract(epoch from now() - since)::float8 as "waited_s!"
           from gone
           order by due, task_id"#,
        &features,
        &counts,
        &offer.pools,
        first,
        &offer.agents,
        &offer.shut_words(),
        last,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Dequeued {
            task: TaskId(row.task_id),
            feature: FeatureId(row.feature_id),
            kind: row.kind,
            priority: row.priority,
            waited_s: row.waited_s,
            key: Some(row.key).filter(|key| !key.is_empty()),
        })
        .collect())
}

/// Sum of these features' ready tasks for this offer, each feature counted up to its bound in `most`.
pub async fn usable(
    conn: &mut PgConnection,
    offer: &Capability,
    most: &[(FeatureId, u32)],
) -> sqlx::Result<i64> {
    let features: Vec<Uuid> = most.iter().map(|(feature, _)| feature.0).collect();
    let counts: Vec<i64> = most.iter().map(|(_, n)| i64::from(*n)).collect();
    sqlx::query_scalar!(
        r#"select coalesce(sum(q.n), 0)::bigint as "n!"
           from unnest($1::uuid[], $2::bigint[]) as share(feature_id, n)
           cross join lateral (
             select count(*) as n
             from (select 1
                   from open_keys(share.feature_id) k
                   cross join unnest($3::text[]) as p(pool)
                   cross join unnest($4::text[]) as a(agent)
                   cross join lateral (
                     select 1
                     from ready_tasks
                     where pool = p.pool and agent = a.agent and feature_id = share.feature_id and key = k.key and not_before <= now()
                       and (agent <> 'default' or pool || ' ' || kind::text <> all($5))
                     order by due, task_id
                     limit least(share.n, k.room)
                   ) bounded
                   limit share.n) as bounded
           ) q"#,
        &features,
        &counts,
        &offer.pools,
        &offer.agents,
        &offer.shut_words(),
    )
    .fetch_one(conn)
    .await
}

/// Puts back tasks that a claim took and nobody started. Code that removes a task from the queue for good
/// holds its row and waits for the claim's row. That deadlocks; the claim then restarts and does not see the
/// task.
pub async fn put_back(conn: &mut PgConnection, tasks: &[Dequeued]) -> sqlx::Result<()> {
    sqlx::query!(
        r#"with held as materialized (
             select id
             from tasks
             where id = any($1::uuid[])
               and (state = 'pending' and not held or state = 'in_progress' and next_kind in ('verify', 'integrate'))
             order by id
             for no key update
           )
           insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority, key, not_before, since)
           select t.id, t.feature_id, texts.pool, as_it_was.kind, agent_needed(as_it_was.kind, texts.agent, r.agent),
                  case when as_it_was.kind = 'check' and t.next_kind = 'integrate' then back.priority
                  else case t.next_kind when 'integrate' then -2147483648 when 'verify' then -2147483647 when 'git' then -2147483647
                                    when 'check' then t.priority else least(greatest(t.priority, -2147483646), 2147483645) end end,
                  key_needed(t.next_kind, texts.concurrency, f.concurrency),
                  now(), now() - back.waited_s * interval '1 second'
           from unnest($1::uuid[], $2::float8[], $3::session_kind[], $4::int[]) as back(id, waited_s, kind, priority)
           join tasks t on t.id = back.id
           cross join lateral (
             select case when back.kind = 'check' and t.next_kind = 'integrate' then back.kind else t.next_kind end as kind
           ) as_it_was
           join task_texts texts on texts.task_id = t.id
           join features f on f.id = t.feature_id
           left join runs r on r.id = f.current_run
           where t.id = any(array(select id from held)) and t.next_kind is not null
             and (r.only_task is null or t.next_kind in ('verify', 'integrate', 'check') or task_within(t.id, r.only_task))
           on conflict (task_id) do nothing"#,
        &tasks.iter().map(|one| one.task.0).collect::<Vec<_>>(),
        &tasks.iter().map(|one| one.waited_s).collect::<Vec<_>>(),
        &tasks.iter().map(|one| one.kind).collect::<Vec<_>>() as &[SessionKind],
        &tasks.iter().map(|one| one.priority).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Tasks that wait for one agent in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub pool: String,
    pub agent: String,
    pub kind: SessionKind,
    /// Counted up to the requested bound.
    pub tasks: i64,
}

/// Queued tasks by pool, agent and kind, counted up to `window` for each pool and agent. With a `feature`,
/// all of its queued tasks, due or not, since an unavailable agent delays them as well. Without one, the
/// ready tasks of all running features. Costs a few look-ups for each feature, pool and agent, whatever the
/// number of tasks.
pub async fn queued(
    conn: &mut PgConnection,
    feature: Option<FeatureId>,
    window: i64,
) -> sqlx::Result<Vec<Queued>> {
    sqlx::query_as!(
        Queued,
        r#"with recursive asked as materialized (
             select id from features where state = 'running' and $1::uuid is null
             union all
             select $1 where $1 is not null
           ), pairs as (
             select f.id as feature_id, first.pool, first.agent
             from asked f
             cross join lateral (
               select pool, agent from ready_tasks where feature_id = f.id order by pool, agent limit 1
             ) first
             union all
             select p.feature_id, next.pool, next.agent
             from pairs p
             cross join lateral (
               select pool, agent
               from ready_tasks
               where feature_id = p.feature_id and (pool, agent) > (p.pool, p.agent)
               order by pool, agent
               limit 1
             ) next
           )
           select p.pool as "pool!", p.agent as "agent!", q.kind as "kind!: SessionKind", q.n as "tasks!"
           from (select distinct pool, agent from pairs) p
           cross join lateral (
             select kind, count(*) as n
             from (
               select one.kind
               from pairs f
               cross join lateral (
                 select kind
                 from ready_tasks
                 where feature_id = f.feature_id and pool = f.pool and agent = f.agent
                   and ($1 is not null or not_before <= now())
                 order by key, due, task_id
                 limit $2
               ) one
               where f.pool = p.pool and f.agent = p.agent
               limit $2
             ) bounded
             group by kind
           ) q
           order by p.pool, p.agent, q.kind"#,
        feature.map(|feature| feature.0),
        window,
    )
    .fetch_all(conn)
    .await
}

/// Pool, agent and kind of a queued task. `None` when it is not queued, or not due.
pub async fn needed(
    conn: &mut PgConnection,
    task: TaskId,
) -> sqlx::Result<Option<(String, String, SessionKind)>> {
    let row = sqlx::query!(
        r#"select pool, agent, kind as "kind: SessionKind" from ready_tasks where task_id = $1 and not_before <= now()"#,
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.pool, row.agent, row.kind)))
}

/// Tries to become the only issuer of tickets until the transaction ends.
pub async fn try_lock_issuer(conn: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock(7226, 2) as "got!""#)
        .fetch_one(conn)
        .await
}

/// A feature's work that is under way or waits for its turn. Held tasks, and tasks that conflicted twice,
/// count as queued. While a dispatch is live, the other fields are not read and are `false`.
#[derive(Debug, Clone, Copy)]
pub struct UnderWay {
    pub live: bool,
    pub queued: bool,
    pub following_up: bool,
    pub integrating: bool,
}

/// Reads everything in one statement, so in one snapshot. Claims do not lock features: a task may move from
/// the queue to a dispatch meanwhile, and must not be seen half-way.
pub async fn under_way(
    conn: &mut PgConnection,
    features: &[Uuid],
) -> sqlx::Result<HashMap<FeatureId, UnderWay>> {
    let rows = sqlx::query!(
        r#"select f.id as "id!", live as "live!",
                  not live and coalesce(
                    (select true from ready_tasks q where q.feature_id = f.id limit 1),
                    (select true from path_holds h join tasks t on t.id = h.task_id
                     where h.feature_id = f.id and h.released_at is null and t.state = 'pending'
                       and (run.only_task is null or task_within(t.id, run.only_task))
                     limit 1),
                    (select true from tasks t
                     where t.feature_id = f.id and t.conflicts >= 2 and t.next_kind = 'work' and t.state = 'pending'
                       and t.children = 0 and t.open_blockers = 0 and not t.held
                       and (run.only_task is null or task_within(t.id, run.only_task))
                     limit 1),
                    false
                  ) as "queued!",
                  not live and coalesce(
                    (select true from ready_tasks q where q.feature_id = f.id and q.priority <= -2147483647 limit 1),
                    false
                  ) as "following_up!",
                  not live and coalesce(
                    (select true from integrations i
                     where i.feature_id = f.id and i.state in ('waiting', 'turn', 'decided')
                       and (i.state = 'decided' or not gate.stopped)
                     limit 1),
                    false
                  ) as "integrating!"
           from unnest($1::uuid[]) as f(id)
           left join lateral (
             select r.only_task
             from features o
             cross join lateral (select only_task from runs where id = o.current_run limit 1) r
             where o.id = f.id
             limit 1
           ) run on true
           cross join lateral (
             select coalesce((select true from dispatches d where d.feature_id = f.id and d.state = 'live' limit 1), false) as live
             -- Looked for once.
             offset 0
           ) l
           cross join lateral (
             -- The gate waits for a person, and all that is to land with it.
             select coalesce((
               select true
               from features g
               cross join lateral (
                 select 1 from tasks where id = g.check_task and state in ('failed', 'needs_review') limit 1
               ) c
               where g.id = f.id
               limit 1
             ), false) as stopped
             offset 0
           ) gate"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    let under_way = rows.into_iter().map(|row| {
        let under_way = UnderWay {
            live: row.live,
            queued: row.queued,
            following_up: row.following_up,
            integrating: row.integrating,
        };
        (FeatureId(row.id), under_way)
    });
    Ok(under_way.collect())
}

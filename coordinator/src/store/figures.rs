//! Figures for monitoring and scaling (DESIGN 4, 8). Every coordinator returns the same. Each query is
//! bounded, or reads one row per run or feature.

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;

use crate::domain::failure::Failure;
use crate::domain::states::{FeatureState, Outcome};

/// Queue entries of a feature to read in a pool, in addition to its limit of sessions. Verifications and
/// integrations do not count against that limit.
const FOLLOW_UPS: i32 = 32;
/// Most ready tasks to count for a feature with a larger limit of sessions.
const SESSIONS: i32 = 10_000;
/// Ended sessions are counted among this many that started last.
const BEGAN_LAST: i64 = 10_000;
/// Newest running features to recount.
const RECOUNTED: i64 = 20;
/// Most tasks of a recounted feature: a recount reads them all.
const RECOUNTED_TASKS: i32 = 20_000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Load {
    pub pool: String,
    /// Sessions and integrations under way.
    pub busy: i64,
    /// Live sessions, and tasks that could start now within their features' limits of sessions.
    pub wanted: i64,
    /// The longest wait of a task that could start. Seconds.
    pub waits_s: f64,
}

/// The load of each pool with work. Ignores limits of runs, which claims check. A feature with tasks in
/// several pools counts with all of its room in each, since any of them may take its tasks.
pub async fn loads(conn: &mut PgConnection) -> sqlx::Result<Vec<Load>> {
    sqlx::query_as!(
        Load,
        r#"with recursive live as materialized (
             select d.feature_id, x.pool, count(*) as sessions, count(*) filter (where d.kind not in ('integrate', 'check')) as running
             from dispatches d
             cross join lateral (select pool from task_texts where task_id = d.task_id limit 1) x
             where d.state = 'live'
             group by d.feature_id, x.pool
           ), with_room as materialized (
             -- In a folder one session works at a time.
             select f.id, case when f.dir is null then f.max_parallel else 1 end as max_parallel,
                    case when f.dir is null then f.max_parallel else 1 end - coalesce(sum(live.running), 0) as room
             from features f
             left join live on live.feature_id = f.id
             where f.state = 'running'
             group by f.id
           ), pairs as (
             -- From one pool and agent of a feature to its next: no entry of the queue is read twice.
             select f.id as feature_id, first.pool, first.agent
             from with_room f
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
           ), next as (
             select p.pool, least(sum(q.begins), greatest(f.room, 0)) + sum(q.follows) as startable, max(q.waits) as waits
             from with_room f
             join pairs p on p.feature_id = f.id
             cross join lateral (
               -- Nobody needs a slot for a check ahead of its turn.
               select count(*) filter (where b.priority between -2147483646 and 2147483646) as begins,
                      count(*) filter (where b.priority <= -2147483647) as follows,
                      extract(epoch from now() - min(b.not_before)) as waits
               from (
                 select priority, not_before, due
                 from ready_tasks
                 where pool = p.pool and agent = p.agent and feature_id = f.id and not_before <= now()
                 order by key, due, task_id
                 limit least(f.max_parallel, $2) + $1
               ) b
             ) q
             group by p.pool, f.id, f.room
           )
           select pool as "pool!", sum(busy)::bigint as "busy!", (sum(busy) + sum(startable))::bigint as "wanted!",
                  coalesce(max(waits), 0)::float8 as "waits_s!"
           from (
             select pool, sessions as busy, 0 as startable, null as waits from live
             union all
             select pool, 0, startable, waits from next
           ) p
           group by pool
           order by pool"#,
        FOLLOW_UPS,
        SESSIONS,
    )
    .fetch_all(conn)
    .await
}

/// Features in one state, and their counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    pub state: FeatureState,
    pub features: i64,
    /// Includes tasks in progress.
    pub pending: i64,
    pub blocked: i64,
    pub done: i64,
    pub failed: i64,
    pub cancelled: i64,
    pub skipped: i64,
    pub needs_review: i64,
}

pub async fn features(conn: &mut PgConnection) -> sqlx::Result<Vec<Features>> {
    sqlx::query_as!(
        Features,
        r#"select state as "state!: FeatureState", count(*) as "features!", sum(pending)::bigint as "pending!",
                  sum(blocked)::bigint as "blocked!", sum(done)::bigint as "done!", sum(failed)::bigint as "failed!",
                  sum(cancelled)::bigint as "cancelled!", sum(skipped)::bigint as "skipped!", sum(needs_review)::bigint as "needs_review!"
           from features
           group by state
           order by state"#
    )
    .fetch_all(conn)
    .await
}

/// Attempts that wait to land, and the landings of the last hour, at most the newest 1,000.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Trains {
    pub waiting: i64,
    /// The longest wait. Seconds.
    pub oldest_s: f64,
    pub checks: i64,
    pub wasted: i64,
    pub landings: i64,
    /// Total time of the landings, each from passed to landed. Seconds.
    pub landing_s: f64,
}

pub async fn trains(conn: &mut PgConnection) -> sqlx::Result<Trains> {
    sqlx::query_as!(
        Trains,
        r#"with waiting as materialized (
             select queued_at, checks, checks_wasted from integrations where state = 'waiting'
             union all
             select queued_at, checks, checks_wasted from integrations where state in ('turn', 'decided')
           ), landed as materialized (
             select extract(epoch from ended_at - queued_at) as seconds, checks, checks_wasted
             from (
               select ended_at, queued_at, checks, checks_wasted
               from integrations
               where state in ('merged', 'reverted')
               order by ended_at desc
               limit 1000
             ) newest
             where ended_at > now() - interval '1 hour'
           ), checked as (
             select checks, checks_wasted from waiting union all select checks, checks_wasted from landed
           )
           select (select count(*) from waiting) as "waiting!",
                  (select coalesce(extract(epoch from now() - min(queued_at)), 0)::float8 from waiting) as "oldest_s!",
                  (select coalesce(sum(checks), 0)::bigint from checked) as "checks!",
                  (select coalesce(sum(checks_wasted), 0)::bigint from checked) as "wasted!",
                  (select count(*) from landed) as "landings!",
                  (select coalesce(sum(seconds), 0)::float8 from landed) as "landing_s!""#
    )
    .fetch_one(conn)
    .await
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Of the runs of all existing features. US dollars.
    pub cost_usd: f64,
    /// Of live sessions, in addition. US dollars.
    pub in_flight_usd: f64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub iterations: i64,
    pub succeeded: i64,
    /// All reports ever that could not be applied.
    pub bad_reports: i64,
    pub database_bytes: i64,
}

pub async fn totals(conn: &mut PgConnection) -> sqlx::Result<Totals> {
    sqlx::query_as!(
        Totals,
        r#"select coalesce(sum(cost_usd), 0) as "cost_usd!", coalesce(sum(input_tokens), 0)::bigint as "input_tokens!",
                  coalesce(sum(output_tokens), 0)::bigint as "output_tokens!", coalesce(sum(iterations), 0)::bigint as "iterations!",
                  coalesce(sum(succeeded), 0)::bigint as "succeeded!",
                  (select coalesce(max(id), 0) from bad_reports) as "bad_reports!",
                  (select coalesce(sum(cost_usd), 0) from dispatches where state = 'live') as "in_flight_usd!",
                  pg_database_size(current_database()) as "database_bytes!"
           from runs"#
    )
    .fetch_one(conn)
    .await
}

/// Ended sessions of a kind, by outcome and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSessions {
    pub kind: SessionKind,
    pub outcome: Outcome,
    pub failure: Option<Failure>,
    pub sessions: i64,
}

/// Sessions that ended in the last ten minutes, among those that started last.
pub async fn ended(conn: &mut PgConnection) -> sqlx::Result<Vec<EndedSessions>> {
    sqlx::query_as!(
        EndedSessions,
        r#"select kind as "kind!: SessionKind", outcome as "outcome!: Outcome", failure as "failure: Failure", count(*) as "sessions!"
           from (
             select kind, outcome, failure, settled_at from dispatches order by id desc limit $1
           ) d
           where settled_at > now() - interval '10 minutes' and outcome is not null
           group by kind, outcome, failure
           order by kind, outcome, failure"#,
        BEGAN_LAST,
    )
    .fetch_all(conn)
    .await
}

/// Newest running features, except the largest, whose counters differ from a recount. One statement reads
/// counters and tasks at the same moment.
pub async fn drifted(conn: &mut PgConnection) -> sqlx::Result<Vec<FeatureId>> {
    let ids = sqlx::query_scalar!(
        r#"with chosen as materialized (
             select id, pending, blocked, done, failed, cancelled, skipped, needs_review
             from features
             where state = 'running' and pending + blocked + done + failed + cancelled + skipped + needs_review <= $1
             order by id desc
             limit $2
           ), counted as materialized (
             select feature_id, count(*) filter (where state in ('pending', 'in_progress')) as pending,
                    count(*) filter (where state = 'blocked') as blocked, count(*) filter (where state = 'done') as done,
                    count(*) filter (where state = 'failed') as failed, count(*) filter (where state = 'cancelled') as cancelled,
                    count(*) filter (where state = 'skipped') as skipped,
                    count(*) filter (where state = 'needs_review') as needs_review
             from tasks
             where feature_id = any(array(select id from chosen))
             group by feature_id
           )
           select f.id as "id!"
           from chosen f
           left join counted c on c.feature_id = f.id
           where (f.pending, f.blocked, f.done, f.failed, f.cancelled, f.skipped, f.needs_review)
                 is distinct from
                 (coalesce(c.pending, 0), coalesce(c.blocked, 0), coalesce(c.done, 0), coalesce(c.failed, 0), coalesce(c.cancelled, 0),
                  coalesce(c.skipped, 0), coalesce(c.needs_review, 0))"#,
        RECOUNTED_TASKS,
        RECOUNTED,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(FeatureId).collect())
}

//! The whole system at a glance.

use std::collections::BTreeMap;

pub use ralph_api::view::{FullKey, NeedsPerson, Pool, QueuedTask, SystemView, UndeliveredView, cost_of};
use ralph_shared::wire::Concerns;
use sqlx::PgConnection;
use uuid::Uuid;

use super::dispatch::sessions;
use super::feature::features;
use super::task::{held_tasks, tasks};
use super::worker::{WorkerView, shown};
use crate::store;
use crate::store::view::availability::{WaitingView, sites, waiting};

/// Most sessions and features to name.
const NAMED: i64 = 50;
/// Most features to name that do not run and wait for a person.
const IN_NEED: i64 = 500;
/// Most tasks to name that wait for their time, and that wait for a slot, of each.
const FIRST_QUEUED: i64 = 5;
/// Most features to count.
const FEATURES_COUNTED: i64 = 10_000;
/// Ended features to show, so that a screen is not empty after the work.
const RECENT: i64 = 5;
/// Reads this many of the newest tasks that failed or need a person.
const NEWEST_TASKS: i64 = 10_000;
/// Most ready tasks to count in each pool.
const DEPTH_COUNTED: i64 = 10_000;
/// Newest runs whose cost is added up.
const RUNS_ADDED_UP: i64 = 10_000;
/// Most notices to count.
const NOTICES_COUNTED: i64 = 1_000;

/// Number of agents that their worker made unavailable: only a person repairs them for good. The pause of an
/// account ends by itself.
fn agents_in_need(workers: &[WorkerView]) -> i64 {
    let doors = workers.iter().flat_map(|worker| &worker.doors);
    let concerned = doors.filter(|door| door.door.concerns() == Concerns::Agent);
    i64::try_from(concerned.count()).unwrap_or(i64::MAX)
}

/// Number of tasks that wait for a missing worker or agent.
fn unserved(waiting: &[WaitingView]) -> i64 {
    let lacking = waiting.iter().filter(|waiting| waiting.door.is_none());
    lacking.map(|waiting| waiting.tasks).sum()
}

async fn undelivered(conn: &mut PgConnection) -> sqlx::Result<Option<UndeliveredView>> {
    let row = sqlx::query!(
        r#"select count(*) as "notices!", (array_agg(n.error))[1] as error
           from (
             select error
             from notices
             where error is not null and at > now() - interval '1 day'
             order by at desc
             limit $1
           ) n"#,
        NOTICES_COUNTED,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.error.map(|error| UndeliveredView {
        notices: row.notices,
        error,
    }))
}

async fn full_keys(conn: &mut PgConnection) -> sqlx::Result<Vec<FullKey>> {
    sqlx::query_as!(
        FullKey,
        r#"select k.name as key, k.most as "limit", live.n as "sessions!"
           from (
             select key, count(*) as n from dispatches where state = 'live' and key is not null group by key
           ) live
           join concurrency_keys k on k.name = live.key and k.most <= live.n
           order by k.name
           limit $1"#,
        NAMED,
    )
    .fetch_all(conn)
    .await
}

/// The queued tasks whose time comes first, and those that could start first.
async fn queued(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<Vec<QueuedTask>> {
    let ids = sqlx::query_scalar!(
        r#"with running as materialized (select id from features where state = 'running')
           (select q.task_id as "id!"
            from running f
            cross join lateral (
              select task_id, not_before
              from ready_tasks
              where feature_id = f.id and not_before > now()
              order by not_before, task_id
              limit $1
            ) q
            order by q.not_before, q.task_id
            limit $1)
           union all
           (select q.task_id
            from running f
            cross join lateral (
              select task_id, due
              from ready_tasks
              where feature_id = f.id and not_before <= now()
              order by due, task_id
              limit $1
            ) q
            order by q.due, q.task_id
            limit $1)"#,
        FIRST_QUEUED,
    )
    .fetch_all(&mut *conn)
    .await?;
    let tasks = tasks(conn, &ids, lease_ms).await?;
    Ok(tasks
        .into_iter()
        .filter_map(|task| {
            Some(QueuedTask {
                task: task.id,
                title: task.title,
                waits: task.waits?,
                until: task.waits_until,
            })
        })
        .collect())
}

pub async fn system(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<SystemView> {
    let ids = named(conn).await?;
    let shown_features = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    let mut pools = BTreeMap::new();
    for (pool, slots) in store::worker::pools(conn, lease_ms).await? {
        pools.insert(pool, Pool { slots, ready: 0 });
    }
    let by_agent = store::queue::ready::queued(conn, None, DEPTH_COUNTED).await?;
    for one in &by_agent {
        // Also lists a pool that no worker serves.
        let pool: &mut Pool = pools.entry(one.pool.clone()).or_default();
        pool.ready = DEPTH_COUNTED.min(pool.ready + one.tasks);
    }
    let list = store::worker::list(conn, lease_ms).await?;
    let accounts = store::availability::not_open(conn).await?;
    let live = sqlx::query!(
        r#"select count(*) as "sessions!", coalesce(sum(cost_usd), 0) as "cost_usd!" from dispatches where state = 'live'"#
    )
    .fetch_one(&mut *conn)
    .await?;
    let features = features(conn, &ids).await?;
    let cost_usd = cost_of(&features);
    let all = of_all_features(conn).await?;
    let waiting = waiting(&by_agent, &sites(&list, &accounts));
    let workers = shown(list, &accounts);
    let needs_person = NeedsPerson {
        tasks: in_review(conn).await?,
        features: NeedsPerson::of(&features).features,
        paused: all.paused,
        agents: agents_in_need(&workers),
        unserved: unserved(&waiting),
    };
    Ok(SystemView {
        live_sessions: live.sessions,
        in_flight_usd: live.cost_usd,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        needs_person,
        more_features: (all.features - shown_features).max(0),
        cost_usd,
        estimated: features.iter().any(|feature| feature.estimated),
        total_cost_usd: all.cost_usd.max(cost_usd),
        features,
        sessions: sessions(conn, None, NAMED).await?,
        held: held_tasks(conn, NAMED).await?,
        held_by_limits: store::budget::reasons(conn, NAMED).await?,
        waiting,
        workers,
        pools,
        queued: queued(conn, lease_ms).await?,
        full_keys: full_keys(conn).await?,
        undelivered: undelivered(conn).await?,
    })
}

/// Features to name: those under way, then those in need, then others; the newest of each.
async fn named(conn: &mut PgConnection) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"(select id as "id!" from features where state in ('running', 'paused') order by id desc limit $1)
           union all
           (select id
            from features
            where state not in ('running', 'paused', 'cancelled') and (needs_review > 0 or state = 'ready')
            order by id desc
            limit $2)
           union all
           (select id
            from features
            where state not in ('running', 'paused', 'ready') and (needs_review = 0 or state = 'cancelled')
            order by id desc
            limit $3)"#,
        NAMED,
        IN_NEED,
        RECENT,
    )
    .fetch_all(conn)
    .await
}

/// Totals of all features, named or not.
struct OfAllFeatures {
    features: i64,
    paused: i64,
    cost_usd: f64,
}

async fn of_all_features(conn: &mut PgConnection) -> sqlx::Result<OfAllFeatures> {
    // A paused feature has an open run, and those have an index.
    sqlx::query_as!(
        OfAllFeatures,
        r#"select (select count(*) from (select 1 from features limit $2) counted) as "features!",
                  (select count(*)
                   from runs r
                   cross join lateral (select state from features where id = r.feature_id limit 1) f
                   where r.ended_at is null and f.state = 'paused') as "paused!",
                  (select coalesce(sum(newest.cost_usd), 0)
                   from (select cost_usd from runs order by id desc limit $1) newest) as "cost_usd!""#,
        RUNS_ADDED_UP,
        FEATURES_COUNTED,
    )
    .fetch_one(conn)
    .await
}

/// Number of tasks that need a person, among the newest that need one or failed.
async fn in_review(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "n!"
           from (
             select task_id from task_texts where reason is not null order by task_id desc limit $1
           ) x
           cross join lateral (select state, children from tasks where id = x.task_id limit 1) t
           where t.state = 'needs_review' and t.children = 0"#,
        NEWEST_TASKS,
    )
    .fetch_one(conn)
    .await
}

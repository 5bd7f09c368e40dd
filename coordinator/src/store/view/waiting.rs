//! The reasons why tasks wait, and their places in the queue.

use std::collections::{BTreeSet, HashMap};

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use super::feature::{FeatureView, features};
use crate::domain::budget::levels::Hold;
use crate::domain::scheduling::availability::ActiveWorker;
use crate::domain::states::{FeatureState, Outcome, TaskState};
use crate::domain::status::why_waiting::{Facts, QueuePosition, WaitReason, why_waiting};
use crate::store;
use crate::store::view::availability::{lack_in_words, sites};
use crate::store::worker::Worker;

/// Most startable tasks to count in each pool.
const COUNTED: i64 = 10_000;
/// Most blockers of a task to name.
const NAMED: i64 = 3;

/// Why a task waits.
#[derive(Debug, Clone, Default)]
pub struct Waited {
    /// `None` when it is over or in progress.
    pub why: Option<WaitReason>,
    /// Its place in the queue, if it waits for nothing else.
    pub place: Option<QueuePosition>,
}

/// Reads why these tasks wait. A worker without a heartbeat within `lease_ms` counts as unable to start
/// anything.
pub async fn of(
    conn: &mut PgConnection,
    tasks: &[Uuid],
    lease_ms: i64,
) -> sqlx::Result<HashMap<Uuid, Waited>> {
    let rows = sqlx::query!(
        r#"select t.id, t.feature_id, t.open_blockers, t.held, t.state as "state: TaskState", t.conflicts, t.next_kind as "next: SessionKind",
                  h.by_task as "by_task?", h.path as "path?", f.not_before as feature_opens, q.task_id is not null as "queued!",
                  coalesce(q.not_before, case when t.state = 'pending' then t.not_before end) as opens,
                  q.pool as "pool?", q.agent as "agent?", q.kind as "kind?: SessionKind",
                  k.name as "key?", k.most as "most?", live.n as "live!", now() as "now!",
                  (select true from integrations i where i.task_id = t.id and i.state = 'waiting' limit 1) as lands_later,
                  blockers.keys as "blockers!",
                  failed.attempt as "attempt?", failed.outcome as "outcome?: Outcome", failed.reason as why
           from unnest($1::uuid[]) as wanted(id)
           cross join lateral (
             select * from tasks
             where id = wanted.id and children = 0 and state in ('pending', 'blocked', 'in_progress')
             limit 1
           ) t
           join features f on f.id = t.feature_id
           left join path_holds h on h.task_id = t.id and h.released_at is null and t.state = 'pending'
           left join ready_tasks q on q.task_id = t.id and f.state = 'running'
           left join concurrency_keys k on k.name = q.key
           cross join lateral (select count(*) as n from dispatches where key = k.name and state = 'live') live
           cross join lateral (
             select coalesce(array_agg(b.key), '{}') as keys
             from (
               select x.key
               from dependencies e
               join tasks o on o.id = e.blocker_id
               join task_texts x on x.task_id = o.id
               where e.task_id = t.id and t.open_blockers > 0 and o.state not in ('done', 'skipped')
               order by o.id
               limit $2
             ) b
           ) blockers
           left join lateral (
             select attempt, outcome, reason
             from dispatches
             where task_id = t.id and settled_at is not null
             order by id desc
             limit 1
           ) failed on true
           where not exists (select from dispatches d where d.id = t.dispatch_id and d.state = 'live')"#,
        tasks,
        NAMED,
    )
    .fetch_all(&mut *conn)
    .await?;
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: BTreeSet<Uuid> = rows.iter().map(|row| row.feature_id).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let features = features(conn, &ids).await?;
    let features: HashMap<String, FeatureView> = features.into_iter().map(|f| (f.id.clone(), f)).collect();
    let due = rows
        .iter()
        .any(|row| row.queued && row.opens.is_some_and(|at| at <= row.now));
    let (mut places, workers, accounts) = match due {
        true => (
            places(conn, tasks).await?,
            store::worker::list(conn, lease_ms).await?,
            store::availability::not_open(conn).await?,
        ),
        false => (HashMap::new(), Vec::new(), Vec::new()),
    };
    let sites: Vec<ActiveWorker> = sites(&workers, &accounts);
    let waited = rows.into_iter().map(|row| {
        let feature = features.get(&FeatureId(row.feature_id).short());
        let failed = row
            .outcome
            .is_some_and(|outcome| !matches!(outcome, Outcome::Done | Outcome::Passed | Outcome::Merged));
        let place = places.remove(&row.id).map(|place| with_slots(place, &workers));
        let hold = feature.and_then(|feature| feature.held_by_limit.as_deref());
        let facts = Facts {
            feature: feature
                .filter(|feature| feature.status != FeatureState::Running)
                .map(|feature| feature.condition.to_string()),
            apart: feature
                .and_then(|feature| feature.run.as_ref()?.only_task.clone())
                .filter(|only| {
                    let is_free = row.state == TaskState::Pending && row.by_task.is_none();
                    is_free && !row.queued && *only != TaskId(row.id).short()
                }),
            is_over: false,
            blockers: (row.blockers, row.open_blockers),
            held: row.held,
            paths: row
                .by_task
                .zip(row.path)
                .map(|(by, path)| (TaskId(by).short(), path)),
            collided: !row.queued
                && row.state == TaskState::Pending
                && row.conflicts >= 2
                && row.next == Some(SessionKind::Work),
            lands_later: row.lands_later.unwrap_or(false),
            feature_opens: row.feature_opens,
            opens: row.opens,
            failed: row.attempt.filter(|_| failed).map(|attempt| (attempt, row.why)),
            limit: hold.map(Hold::words_of),
            key: row.key.zip(row.most).map(|(key, most)| (key, most, row.live)),
            lacks: match (&row.pool, &row.agent, row.kind) {
                (Some(pool), Some(agent), Some(kind)) if due => lack_in_words(pool, agent, kind, &sites),
                _ => None,
            },
            parallel: feature.map_or((0, 0), |feature| {
                (feature.tasks.in_progress, feature.max_parallel)
            }),
            place: place.clone(),
        };
        let why = why_waiting(&facts, row.now);
        let is_place = why.as_ref().zip(place.as_ref());
        let place = is_place
            .filter(|(why, place)| why.words == place.to_string())
            .map(|(_, place)| place.clone());
        (row.id, Waited { why, place })
    });
    Ok(waited.collect())
}

/// Queue positions of those of `tasks` that could start now; counts of slots are missing.
async fn places(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<HashMap<Uuid, QueuePosition>> {
    let rows = sqlx::query!(
        r#"with running as materialized (select id from features where state = 'running'), counted as (
             select q.task_id, p.pool, row_number() over (partition by p.pool order by q.due, q.task_id) as position,
                    count(*) over (partition by p.pool) as n
             from (select distinct pool from ready_tasks where task_id = any($1)) p
             cross join running f
             cross join lateral (
               select task_id, due
               from ready_tasks
               where feature_id = f.id and pool = p.pool and not_before <= now()
               order by due, task_id
               limit $2
             ) q
           )
           select task_id as "task!", pool as "pool!", position as "position!", n as "n!" from counted where task_id = any($1)"#,
        tasks,
        COUNTED,
    )
    .fetch_all(conn)
    .await?;
    let places = rows.into_iter().map(|row| {
        let place = QueuePosition {
            pool: row.pool,
            position: row.position,
            of: row.n,
            slots: 0,
            busy: 0,
        };
        (row.task, place)
    });
    Ok(places.collect())
}

fn with_slots(place: QueuePosition, workers: &[Worker]) -> QueuePosition {
    let serving = workers
        .iter()
        .filter(|worker| worker.alive && worker.pools.contains(&place.pool));
    let (slots, free) = serving.fold((0, 0), |(slots, free), worker| {
        (
            slots + i64::from(worker.slots),
            free + i64::from(worker.free_slots),
        )
    });
    QueuePosition {
        slots,
        busy: (slots - free).max(0),
        ..place
    }
}

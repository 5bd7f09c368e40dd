pub use ralph_api::view::{HeldBy, HeldTask, LogEntry, TaskDetail, TaskRef, TaskSession, TaskView};
use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use super::dispatch::dispatches_of_task;
use super::page::{Cursor, Page, cut};
use super::waiting::{self, Waited};
use crate::domain::states::{TaskState, Verification};
use crate::store::view::availability::lack_of;

/// The tasks that wait longest for others on the same paths, at most `limit`.
pub async fn held_tasks(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<HeldTask>> {
    let rows = sqlx::query!(
        "select h.task_id, x.title, h.by_task, h.path
         from path_holds h
         join tasks t on t.id = h.task_id and t.state = 'pending'
         join features f on f.id = h.feature_id and f.state in ('running', 'paused')
         join task_texts x on x.task_id = h.task_id
         where h.released_at is null
         order by h.since, h.task_id
         limit $1",
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| HeldTask {
            task: TaskId(row.task_id).short(),
            title: row.title,
            held_by: HeldBy {
                task: TaskId(row.by_task).short(),
                path: row.path,
            },
        })
        .collect())
}

/// Most dispatches in a task's detail.
pub const MAX_ATTEMPTS: i64 = 100;
/// Most neighbours of each sort in a task's detail.
const MAX_NEIGHBOURS: i64 = 200;

/// Tasks by key, in the order of `ids`. A worker without a heartbeat within `lease_ms` counts as unable to
/// start anything.
pub async fn tasks(conn: &mut PgConnection, ids: &[Uuid], lease_ms: i64) -> sqlx::Result<Vec<TaskView>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select t.id, t.feature_id, t.parent_id, x.key, x.title, t.state as "state: TaskState", x.reason, t.priority,
                  x.pool, x.agent, x.model, t.max_retries, t.verify, t.verification as "verification: Verification",
                  t.attempt, t.failures, t.open_blockers, t.children, t.held,
                  d.id as "dispatch?", d.kind as "kind?: SessionKind", d.worker as "worker?", d.model as dispatch_model,
                  d.claimed_at as "claimed_at?", x.paths, h.by_task as "by_task?", h.path as "path?",
                  coalesce(x.concurrency, f.concurrency) as concurrency,
                  f.name as feature_name, edges.keys as "after!"
           from unnest($1::uuid[]) with ordinality as wanted(id, n)
           join tasks t on t.id = wanted.id
           join task_texts x on x.task_id = t.id
           left join dispatches d on d.id = t.dispatch_id and d.state = 'live'
           left join path_holds h on h.task_id = t.id and h.released_at is null and t.state = 'pending'
           join features f on f.id = t.feature_id
           cross join lateral (
             select array(
               select b.key
               from dependencies e
               join task_texts b on b.task_id = e.blocker_id
               where e.task_id = t.id
               order by e.blocker_id
               limit 20
             ) as keys
           ) edges
           order by wanted.n"#,
        ids,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut waits = waiting::of(conn, ids, lease_ms).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let session = match (row.dispatch, row.kind, row.worker, row.claimed_at) {
                (Some(id), Some(kind), Some(worker), Some(started_at)) => Some(TaskSession {
                    id: DispatchId(id).short(),
                    kind,
                    worker,
                    model: row.dispatch_model,
                    started_at,
                }),
                _ => None,
            };
            let Waited { why, place } = waits.remove(&row.id).unwrap_or_default();
            let (waits, waits_until) = why.map(|why| (why.words, why.until)).unzip();
            TaskView {
                id: TaskId(row.id).short(),
                feature: FeatureId(row.feature_id).short(),
                feature_name: row.feature_name,
                parent: row.parent_id.map(|id| TaskId(id).short()),
                key: row.key,
                after: row.after,
                title: row.title,
                status: row.state,
                reason: row.reason,
                priority: row.priority,
                pool: row.pool,
                agent: row.agent,
                model: row.model,
                max_retries: row.max_retries,
                verify: row.verify,
                verification_status: row.verification,
                attempt: row.attempt,
                failures: row.failures,
                open_blockers: row.open_blockers,
                children: row.children,
                held: row.held,
                held_by: row.by_task.zip(row.path).map(|(by, path)| HeldBy {
                    task: TaskId(by).short(),
                    path,
                }),
                concurrency: row.concurrency,
                waits,
                waits_until: waits_until.flatten(),
                queue: place,
                paths: row.paths,
                session,
            }
        })
        .collect())
}

/// Tasks to list.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    pub feature: Option<FeatureId>,
    /// Empty: any state.
    pub states: Vec<TaskState>,
}

/// Tasks in the order of creation.
pub async fn tasks_page(
    conn: &mut PgConnection,
    filter: &TaskFilter,
    cursor: Cursor,
    limit: i64,
    lease_ms: i64,
) -> sqlx::Result<Page<TaskView>> {
    let ids = match filter.feature {
        Some(feature) => {
            sqlx::query_scalar!(
                "select id
                 from tasks
                 where feature_id = $1 and id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
                   and (cardinality($3::task_state[]) = 0 or state = any($3))
                 order by id
                 limit $4::bigint + 1",
                feature.0,
                cursor.0,
                &filter.states as &[TaskState],
                limit,
            )
            .fetch_all(&mut *conn)
            .await?
        }
        None => {
            sqlx::query_scalar!(
                "select id
                 from tasks
                 where id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
                   and (cardinality($2::task_state[]) = 0 or state = any($2))
                 order by id
                 limit $3::bigint + 1",
                cursor.0,
                &filter.states as &[TaskState],
                limit,
            )
            .fetch_all(&mut *conn)
            .await?
        }
    };
    let (ids, next) = cut(ids, limit);
    Ok(Page {
        items: tasks(conn, &ids, lease_ms).await?,
        next,
    })
}

/// A task and everything below it, parents before children, at most `limit`.
pub async fn subtree(
    conn: &mut PgConnection,
    root: TaskId,
    cursor: Cursor,
    limit: i64,
    lease_ms: i64,
) -> sqlx::Result<Page<TaskView>> {
    let ids = sqlx::query_scalar!(
        r#"with recursive below as (
             select id from tasks where id = $1
             union all
             select t.id from tasks t join below b on t.parent_id = b.id
           )
           select id as "id!"
           from below
           where id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
           order by id
           limit $3::bigint + 1"#,
        root.0,
        cursor.0,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let (ids, next) = cut(ids, limit);
    Ok(Page {
        items: tasks(conn, &ids, lease_ms).await?,
        next,
    })
}

/// Everything about one task; `None` when it does not exist.
///
/// A worker counts as alive for `lease_ms` after a heartbeat.
pub async fn detail(conn: &mut PgConnection, id: TaskId, lease_ms: i64) -> sqlx::Result<Option<TaskDetail>> {
    let Some(task) = tasks(conn, &[id.0], lease_ms).await?.pop() else {
        return Ok(None);
    };
    let text = sqlx::query!(
        r#"select f.name, x.description,
                  (select i.landed_commit from integrations i where i.task_id = t.id and i.state = 'merged') as landed
           from tasks t
           join features f on f.id = t.feature_id
           join task_texts x on x.task_id = t.id
           where t.id = $1"#,
        id.0,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(text) = text else {
        return Ok(None);
    };
    let mut detail = TaskDetail {
        task,
        description: text.description,
        lacks: lack_of(conn, id, lease_ms).await?,
        blockers: Vec::new(),
        dependents: Vec::new(),
        subtasks: Vec::new(),
        dispatches: dispatches_of_task(conn, id, MAX_ATTEMPTS).await?,
        landed_commit: text.landed,
    };
    read_neighbours(conn, id, &mut detail).await?;
    Ok(Some(detail))
}

async fn read_neighbours(conn: &mut PgConnection, id: TaskId, detail: &mut TaskDetail) -> sqlx::Result<()> {
    let neighbours = sqlx::query!(
        r#"select n.relation as "relation!", t.id, x.title, t.state as "state: TaskState"
           from (
             (select 'blocker' as relation, blocker_id as id from dependencies where task_id = $1 limit $2)
             union all
             (select 'dependent', task_id from dependencies where blocker_id = $1 limit $2)
             union all
             (select 'subtask', id from tasks where parent_id = $1 limit $2)
           ) n
           join tasks t on t.id = n.id
           join task_texts x on x.task_id = t.id
           order by t.id"#,
        id.0,
        MAX_NEIGHBOURS,
    )
    .fetch_all(conn)
    .await?;
    for row in neighbours {
        let to = match row.relation.as_str() {
            "blocker" => &mut detail.blockers,
            "dependent" => &mut detail.dependents,
            _ => &mut detail.subtasks,
        };
        to.push(TaskRef {
            id: TaskId(row.id).short(),
            title: row.title,
            status: row.state,
            reason: None,
            name: None,
            commands: Vec::new(),
        });
    }
    Ok(())
}

/// The log of a task, oldest first, the last `limit` entries.
pub async fn log_of_task(conn: &mut PgConnection, id: TaskId, limit: i64) -> sqlx::Result<Vec<LogEntry>> {
    let rows = sqlx::query!(
        "select at, actor, what, why from task_logs where task_id = $1 order by id desc limit $2",
        id.0,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .rev()
        .map(|row| LogEntry {
            at: row.at,
            actor: row.actor,
            what: row.what,
            why: row.why,
        })
        .collect())
}

//! Tasks.

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::dispatch::{DispatchView, dispatches_of_task};
use super::page::{Cursor, Page, cut};
use super::waiting::{self, Waited};
use crate::domain::states::{TaskState, Verification};
use crate::domain::status::why_waiting::QueuePosition;
use crate::store::view::availability::lack_of;

/// A task as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskView {
    pub id: String,
    pub feature: String,
    /// The name of its feature.
    #[serde(default)]
    pub feature_name: String,
    pub parent: Option<String>,
    pub key: String,
    /// Keys of the tasks that it waits for, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    pub title: String,
    pub status: TaskState,
    /// Why it failed, needs a person or can't land yet.
    pub reason: Option<String>,
    pub priority: i32,
    pub pool: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub max_retries: i32,
    pub verify: bool,
    pub verification_status: Verification,
    /// Number of the last attempt; 0 before the first.
    pub attempt: i32,
    /// Failures in a row.
    pub failures: i16,
    pub open_blockers: i32,
    pub children: i32,
    /// Whether a failed or cancelled ancestor keeps it from being worked on.
    pub held: bool,
    /// The task that changes the same and is waited for, in a feature that avoids conflicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// Its concurrency key, or its feature's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Why it isn't worked on now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Until when, where that is known.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub waits_until: Option<OffsetDateTime>,
    /// Its place in the queue, where it waits for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePosition>,
    /// What it is declared to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What runs now.
    pub session: Option<TaskSession>,
}

impl TaskView {
    /// What people call it: `FEATURE/KEY`.
    pub fn handle(&self) -> String {
        format!("{}/{}", self.feature_name, self.key)
    }
}

/// Why a task waits that could else begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldBy {
    /// The task that is waited for.
    pub task: String,
    /// What both change.
    pub path: String,
}

impl std::fmt::Display for HeldBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "held: {} changes {} too", self.task, self.path)
    }
}

/// A task that waits for another one which changes the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldTask {
    /// The task.
    pub task: String,
    /// Its title.
    pub title: String,
    /// What it waits for.
    pub held_by: HeldBy,
}

/// The tasks that wait longest for others which change the same, at most `limit`.
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

/// What runs for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskSession {
    pub id: String,
    pub kind: SessionKind,
    pub worker: String,
    pub model: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
}

/// A task as others mention it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskRef {
    pub id: String,
    pub title: String,
    pub status: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// FEATURE/KEY, or its id where that stands for several; where something is asked of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What a person can do about it, as it is typed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// A task with everything around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: TaskView,
    pub description: String,
    /// What it waits for that could start, while no worker can start it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    pub blockers: Vec<TaskRef>,
    pub dependents: Vec<TaskRef>,
    pub subtasks: Vec<TaskRef>,
    /// The last 100 dispatches, oldest first.
    pub dispatches: Vec<DispatchView>,
    /// The commit on the feature branch, once it landed.
    pub landed_commit: Option<String>,
}

/// What was done to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogEntry {
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub actor: String,
    pub what: String,
    pub why: Option<String>,
}

/// Dispatches that a task's detail holds at most.
pub const MAX_ATTEMPTS: i64 = 100;
/// Neighbours of each sort that a task's detail holds at most.
const MAX_NEIGHBOURS: i64 = 200;

/// Tasks by key, in the order of `ids`. A worker that was not heard within `lease_ms` starts nothing.
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

/// Which tasks a list shows.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    pub feature: Option<FeatureId>,
    /// In one of these states, if any are given.
    pub states: Vec<TaskState>,
}

/// Tasks in the order in which they were made.
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

/// Everything of one task; `None` when there is none.
///
/// `lease_ms` is how long a worker counts as alive after it was heard.
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
    .fetch_all(&mut *conn)
    .await?;
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
    Ok(Some(detail))
}

/// What was done to a task, oldest first, the last `limit` entries.
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

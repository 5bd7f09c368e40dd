//! Inserts new tasks with texts and edges, many at once.

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::GitOperation;
use sqlx::PgConnection;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::run::RunSettings;
use crate::domain::run::defaults::TaskDefaults;
use crate::domain::states::TaskState;

/// Values of a new task. Parents come before their children.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub id: TaskId,
    pub parent: Option<TaskId>,
    pub key: String,
    pub title: String,
    pub description: String,
    pub priority: i32,
    pub pool: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub max_retries: i32,
    pub verify: bool,
    /// Paths that it is declared to change.
    pub paths: Vec<String>,
    /// Its concurrency key, if it differs from its feature's.
    pub concurrency: Option<String>,
    /// Its earliest start.
    pub not_before: Option<OffsetDateTime>,
    pub open_blockers: i32,
    pub children: i32,
    pub start_commit: Option<String>,
    pub start_ref: Option<String>,
    /// Kind of its own sessions.
    pub role: SessionKind,
    /// Its branch operation, with the role [`SessionKind::Git`], or its gate, with [`SessionKind::Check`].
    pub operation: Option<GitOperation>,
}

impl NewTask {
    /// A task with this role, without texts, edges and choices of its own.
    pub fn blank(role: SessionKind, defaults: &TaskDefaults) -> Self {
        Self {
            id: TaskId::new(),
            parent: None,
            key: String::new(),
            title: String::new(),
            description: String::new(),
            priority: 0,
            pool: defaults.pool.clone(),
            agent: None,
            model: None,
            max_retries: defaults.max_retries,
            verify: defaults.verify,
            paths: Vec::new(),
            concurrency: None,
            not_before: None,
            open_blockers: 0,
            children: 0,
            start_commit: None,
            start_ref: None,
            role,
            operation: None,
        }
    }
}

impl NewTask {
    /// Its initial state.
    pub fn state(&self) -> TaskState {
        if self.open_blockers > 0 {
            TaskState::Blocked
        } else {
            TaskState::Pending
        }
    }
}

/// Rows per insert; bounds statements and their memory.
const INSERT_ROWS: usize = 5_000;

/// Inserts tasks and their edges (task, blocker) without queueing any.
pub async fn insert(
    conn: &mut PgConnection,
    feature: FeatureId,
    tasks: &[NewTask],
    edges: &[(TaskId, TaskId)],
) -> sqlx::Result<()> {
    insert_begun(conn, feature, tasks, edges, None).await.map(drop)
}

/// Inserts tasks and edges of a feature that starts with this run: tasks without blockers enter the queue.
/// Returns the pools with new work, one entry per task.
pub async fn insert_begun(
    conn: &mut PgConnection,
    feature: FeatureId,
    tasks: &[NewTask],
    edges: &[(TaskId, TaskId)],
    run: Option<&RunSettings>,
) -> sqlx::Result<Vec<String>> {
    let queued = tasks.iter().filter(|_| run.is_some());
    let queued = queued.filter(|task| task.children == 0 && task.state() == TaskState::Pending);
    let pools = queued.map(|task| task.pool.clone()).collect();
    for chunk in tasks.chunks(INSERT_ROWS) {
        let ids: Vec<Uuid> = chunk.iter().map(|task| task.id.0).collect();
        let next: Vec<Option<SessionKind>> = chunk
            .iter()
            .map(|task| (task.children == 0).then_some(task.role))
            .collect();
        sqlx::query!(
            "with inserted as (
               insert into tasks
                 (feature_id, id, parent_id, state, next_kind, verify, priority, max_retries, open_blockers, children,
                  open_children, start_commit, start_ref, role, not_before)
               select $1, t.id, t.parent_id, t.state, t.next_kind, t.verify, t.priority, t.max_retries, t.open_blockers,
                      t.children, t.children, t.start_commit, t.start_ref, t.role, t.not_before
               from unnest($2::uuid[], $3::uuid[], $4::task_state[], $5::session_kind[], $6::bool[], $7::int[],
                           $8::int[], $9::int[], $10::int[], $11::text[], $12::text[], $13::session_kind[], $24::timestamptz[])
                 as t(id, parent_id, state, next_kind, verify, priority, max_retries, open_blockers, children,
                      start_commit, start_ref, role, not_before)
             ), queued as (
               insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority, key, not_before, since)
               select t.id, $1, t.pool, t.next_kind, agent_needed(t.next_kind, t.agent, $23),
                      case t.next_kind when 'git' then -2147483647 when 'check' then t.priority else least(greatest(t.priority, -2147483646), 2147483645) end,
                      key_needed(t.next_kind, t.concurrency, (select concurrency from features where id = $1)),
                      greatest(now(), t.not_before), greatest(now(), t.not_before)
               from unnest($2::uuid[], $4::task_state[], $5::session_kind[], $7::int[], $17::text[], $18::text[], $25::text[],
                           $24::timestamptz[])
                 as t(id, state, next_kind, priority, pool, agent, concurrency, not_before)
               where $22 and t.state = 'pending' and t.next_kind is not null
             )
             insert into task_texts (task_id, key, title, description, pool, agent, model, operation, paths, concurrency)
             select t.task_id, t.key, t.title, t.description, t.pool, t.agent, t.model, t.operation,
                    array(select jsonb_array_elements_text(t.paths)), t.concurrency
             from unnest($2::uuid[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[],
                         $20::jsonb[], $21::jsonb[], $25::text[])
               as t(task_id, key, title, description, pool, agent, model, operation, paths, concurrency)",
            feature.0,
            &ids,
            &chunk.iter().map(|task| task.parent.map(|p| p.0)).collect::<Vec<_>>() as &[Option<Uuid>],
            &chunk.iter().map(NewTask::state).collect::<Vec<_>>() as &[TaskState],
            &next as &[Option<SessionKind>],
            &chunk.iter().map(|task| task.verify).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.priority).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.max_retries).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.open_blockers).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.children).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.start_commit.clone()).collect::<Vec<_>>() as &[Option<String>],
            &chunk.iter().map(|task| task.start_ref.clone()).collect::<Vec<_>>() as &[Option<String>],
            &chunk.iter().map(|task| task.role).collect::<Vec<_>>() as &[SessionKind],
            &chunk.iter().map(|task| task.key.clone()).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.title.clone()).collect::<Vec<_>>(),
            &chunk
                .iter()
                .map(|task| task.description.clone())
                .collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.pool.clone()).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.agent.clone()).collect::<Vec<_>>() as &[Option<String>],
            &chunk.iter().map(|task| task.model.clone()).collect::<Vec<_>>() as &[Option<String>],
            &chunk
                .iter()
                .map(|task| task.operation.clone().map(Json))
                .collect::<Vec<_>>() as &[Option<Json<GitOperation>>],
            &chunk
                .iter()
                .map(|task| Json(task.paths.clone()))
                .collect::<Vec<_>>() as &[Json<Vec<String>>],
            run.is_some(),
            run.and_then(|run| run.agent.clone()),
            &chunk.iter().map(|task| task.not_before).collect::<Vec<_>>() as &[Option<OffsetDateTime>],
            &chunk.iter().map(|task| task.concurrency.clone()).collect::<Vec<_>>() as &[Option<String>],
        )
        .execute(&mut *conn)
        .await?;
    }
    insert_edges(conn, edges).await?;
    Ok(pools)
}

async fn insert_edges(conn: &mut PgConnection, edges: &[(TaskId, TaskId)]) -> sqlx::Result<()> {
    for chunk in edges.chunks(INSERT_ROWS * 4) {
        sqlx::query!(
            "insert into dependencies (task_id, blocker_id)
             select * from unnest($1::uuid[], $2::uuid[])
             on conflict do nothing",
            &chunk.iter().map(|(task, _)| task.0).collect::<Vec<_>>(),
            &chunk.iter().map(|(_, blocker)| blocker.0).collect::<Vec<_>>(),
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

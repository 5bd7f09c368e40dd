//! Changes that people make to existing features and tasks.

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::store::feature::priority::Precedence;

/// Changes of a task; `None` keeps the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskEdit {
    pub title: Option<String>,
    pub description: Option<String>,
    pub priority: Option<i32>,
    pub pool: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub max_retries: Option<i32>,
    pub verify: Option<bool>,
    /// Paths that it is declared to change.
    pub paths: Option<Vec<String>>,
}

impl TaskEdit {
    /// Whether only title and description change.
    pub fn is_words(&self) -> bool {
        *self
            == Self {
                title: self.title.clone(),
                description: self.description.clone(),
                ..Self::default()
            }
    }
}

/// Changes a task that the caller has locked.
pub async fn task(conn: &mut PgConnection, id: TaskId, edit: &TaskEdit) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts
         set title = coalesce($2, title), description = coalesce($3, description), pool = coalesce($4, pool),
             agent = coalesce($5, agent), model = coalesce($6, model), paths = coalesce($7, paths)
         where task_id = $1",
        id.0,
        edit.title,
        edit.description,
        edit.pool,
        edit.agent,
        edit.model,
        edit.paths.as_deref(),
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "update tasks
         set priority = coalesce($2, priority), max_retries = coalesce($3, max_retries), verify = coalesce($4, verify)
         where id = $1",
        id.0,
        edit.priority,
        edit.max_retries,
        edit.verify,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Changes of a feature; `None` keeps the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureEdit {
    pub description: Option<String>,
    pub max_parallel: Option<i32>,
    pub review_rounds: Option<i32>,
    /// For unfinished tasks without a session.
    pub max_retries: Option<i32>,
    /// Like `max_retries`.
    pub verify: Option<bool>,
    pub precedence: Precedence,
}

/// Changes a locked feature: its row and, of a draft, the settings of its first tasks.
pub async fn feature(conn: &mut PgConnection, id: FeatureId, edit: &FeatureEdit) -> sqlx::Result<()> {
    sqlx::query!(
        "update features
         set max_parallel = coalesce($2, max_parallel), review_rounds = coalesce($3, review_rounds), updated_at = now(),
             task_defaults = task_defaults
               || jsonb_strip_nulls(jsonb_build_object('max_retries', $4::integer, 'verify', $5::boolean))
         where id = $1",
        id.0,
        edit.max_parallel,
        edit.review_rounds,
        edit.max_retries,
        edit.verify,
    )
    .execute(&mut *conn)
    .await?;
    crate::store::feature::priority::set(conn, id, &edit.precedence).await
}

/// Changes a locked feature's description, also in steps that nobody works on and that still have the same
/// description.
pub async fn describe(conn: &mut PgConnection, id: FeatureId, text: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "with steps as (
           update task_texts x
           set description = $2
           from tasks t, feature_texts f
           where t.feature_id = $1 and f.feature_id = $1 and x.task_id = t.id and x.description = f.description
             and t.role in ('spec', 'plan', 'build', 'review') and t.state in ('pending', 'blocked', 'failed', 'needs_review')
         )
         update feature_texts set description = $2 where feature_id = $1",
        id.0,
        text,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Changes the values of a locked feature's unfinished tasks that nobody works on. Logs `why` for each
/// changed task. Returns their number.
pub async fn tasks_of_feature(
    conn: &mut PgConnection,
    id: FeatureId,
    edit: &FeatureEdit,
    actor: &str,
    why: &str,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"with others as materialized (
             select id
             from tasks
             where feature_id = $1 and role not in ('git', 'distill', 'check') and state in ('pending', 'blocked', 'failed', 'needs_review')
               and (max_retries <> coalesce($2, max_retries) or verify <> coalesce($3, verify))
             order by id
             for update
           ), changed as (
             update tasks t
             set max_retries = coalesce($2, t.max_retries), verify = coalesce($3, t.verify)
             from others
             where t.id = others.id
             returning t.id
           ), told as (
             insert into task_logs (task_id, actor, what, why)
             select id, $4, 'edit', $5 from changed
           )
           select count(*) as "n!" from changed"#,
        id.0,
        edit.max_retries,
        edit.verify,
        actor,
        why,
    )
    .fetch_one(conn)
    .await
}

/// Deletes a feature with its tasks, runs, dispatches and outcomes; learnings and knowledge stay (SPEC 2.2).
/// Returns deleted entries that the memory index may contain.
pub async fn delete_feature(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query!(
        "delete from prompts p using dispatches d where d.feature_id = $1 and p.id in (d.prompts_id, d.id)",
        id.0,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!("update features set current_run = null where id = $1", id.0)
        .execute(&mut *conn)
        .await?;
    let tasks = sqlx::query_scalar!("delete from tasks where feature_id = $1 returning id", id.0)
        .fetch_all(&mut *conn)
        .await?;
    let dispatches = forget(conn, &tasks).await?;
    super::budget::forget(conn, &[id.0]).await?;
    sqlx::query!("delete from features where id = $1", id.0)
        .execute(conn)
        .await?;
    Ok(dispatches)
}

/// Deletes the tasks' rows that have no foreign key: checking one with each submission, claim and report
/// would cost too much. Returns the deleted dispatches.
async fn forget(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    super::budget::forget(conn, tasks).await?;
    sqlx::query!(
        "with queued as (
           delete from ready_tasks where task_id = any($1)
         ), texts as (
           delete from task_texts where task_id = any($1)
         )
         delete from dependencies where task_id = any($1)",
        tasks,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!("delete from dependencies where blocker_id = any($1)", tasks)
        .execute(&mut *conn)
        .await?;
    // Each half uses its own index.
    sqlx::query!(
        "with open as (
           delete from integrations where task_id = any($1) and state in ('waiting', 'turn', 'decided')
         )
         delete from integrations where task_id = any($1) and state not in ('waiting', 'turn', 'decided')",
        tasks,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "with own as materialized (
           select array(select id from dispatches where task_id = any($1)) as ids
         ), learned as (
           update learnings set task_id = null where dispatch_id = any((select ids from own)::uuid[])
         )
         update knowledge set task_id = null where dispatch_id = any((select ids from own)::uuid[])",
        tasks,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query_scalar!(
        "delete from dispatches where task_id = any($1) returning id",
        tasks
    )
    .fetch_all(conn)
    .await
}

/// Leftovers of a deleted task that the caller cleans up.
#[derive(Debug, Clone, Default)]
pub struct Deleted {
    /// Deleted entries that the memory index may contain.
    pub entries: Vec<Uuid>,
    /// Tasks that waited for its paths. Nobody else queues them.
    pub waited: Vec<Uuid>,
}

/// Deletes a resolved task with its dispatches and outcomes; its parent loses a child. The feature keeps the
/// task's landing, since the branch contains it, unless a deleted task landed later.
pub async fn delete_task(
    conn: &mut PgConnection,
    id: TaskId,
    parent: Option<TaskId>,
) -> sqlx::Result<Deleted> {
    let dispatches = sqlx::query_scalar!("select id from dispatches where task_id = $1", id.0)
        .fetch_all(&mut *conn)
        .await?;
    for &dispatch in &dispatches {
        // Its prompt may share a row with prompts of other tasks.
        crate::store::dispatch::prompt::forget(conn, DispatchId(dispatch), None).await?;
    }
    sqlx::query!(
        "update features f
         set landed_commit = i.landed_commit, landed_task = i.task_id, landed_at = i.ended_at
         from integrations i
         where i.task_id = $1 and i.state = 'merged' and f.id = i.feature_id
           and i.ended_at > coalesce(f.landed_at, '-infinity')",
        id.0,
    )
    .execute(&mut *conn)
    .await?;
    let waited = sqlx::query_scalar!(
        "delete from path_holds where by_task = $1 and released_at is null returning task_id",
        id.0,
    )
    .fetch_all(&mut *conn)
    .await?;
    sqlx::query!("delete from tasks where id = $1", id.0)
        .execute(&mut *conn)
        .await?;
    let entries = forget(conn, &[id.0]).await?;
    if let Some(parent) = parent {
        sqlx::query!("update tasks set children = children - 1 where id = $1", parent.0)
            .execute(conn)
            .await?;
    }
    Ok(Deleted { entries, waited })
}

/// Adds a paragraph to a task's description.
pub async fn add_to_description(conn: &mut PgConnection, id: TaskId, words: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts set description = concat_ws(E'\\n\\n', nullif(description, ''), $2::text) where task_id = $1",
        id.0,
        words,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn values(conn: &mut PgConnection, id: TaskId) -> sqlx::Result<Option<TaskEdit>> {
    let row = sqlx::query!(
        "select x.title, x.description, t.priority, x.pool, x.agent, x.model, t.max_retries, t.verify, x.paths
         from task_texts x
         join tasks t on t.id = x.task_id
         where x.task_id = $1",
        id.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| TaskEdit {
        title: Some(row.title),
        description: Some(row.description),
        priority: Some(row.priority),
        pool: Some(row.pool),
        agent: row.agent,
        model: row.model,
        max_retries: Some(row.max_retries),
        verify: Some(row.verify),
        paths: Some(row.paths),
    }))
}

//! Tasks: rows, texts, edges, and the counters that make readiness an index lookup (DESIGN 4).

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::GitOperation;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::domain::retry::Trouble;
use crate::domain::states::{Kind, TaskState, Verification};

/// What a new task is made of. Parents stand before their children.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
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
    /// What it is declared to change.
    pub paths: Vec<String>,
    pub open_blockers: i32,
    pub children: i32,
    pub start_commit: Option<String>,
    pub start_ref: Option<String>,
    /// What its own sessions are.
    pub role: Kind,
    /// What it does to a branch, with the role [`Kind::Git`].
    pub operation: Option<GitOperation>,
}

impl NewTask {
    /// The state it begins in.
    pub fn state(&self) -> TaskState {
        if self.open_blockers > 0 {
            TaskState::Blocked
        } else {
            TaskState::Pending
        }
    }
}

/// Rows of one insert; keeps statements and their memory bounded.
const INSERT_ROWS: usize = 5_000;

/// Inserts tasks and their edges (task, blocker).
pub async fn insert(
    conn: &mut PgConnection,
    feature: FeatureId,
    tasks: &[NewTask],
    edges: &[(TaskId, TaskId)],
) -> sqlx::Result<()> {
    for chunk in tasks.chunks(INSERT_ROWS) {
        let ids: Vec<Uuid> = chunk.iter().map(|task| task.id.0).collect();
        let next: Vec<Option<Kind>> = chunk
            .iter()
            .map(|task| (task.children == 0).then_some(task.role))
            .collect();
        sqlx::query!(
            "insert into tasks
               (feature_id, id, parent_id, state, next_kind, verify, priority, max_retries, open_blockers, children,
                open_children, start_commit, start_ref, role)
             select $1, t.id, t.parent_id, t.state, t.next_kind, t.verify, t.priority, t.max_retries, t.open_blockers,
                    t.children, t.children, t.start_commit, t.start_ref, t.role
             from unnest($2::uuid[], $3::uuid[], $4::task_state[], $5::session_kind[], $6::bool[], $7::int[],
                         $8::int[], $9::int[], $10::int[], $11::text[], $12::text[], $13::session_kind[])
               as t(id, parent_id, state, next_kind, verify, priority, max_retries, open_blockers, children,
                    start_commit, start_ref, role)",
            feature.0,
            &ids,
            &chunk.iter().map(|task| task.parent.map(|p| p.0)).collect::<Vec<_>>() as &[Option<Uuid>],
            &chunk.iter().map(NewTask::state).collect::<Vec<_>>() as &[TaskState],
            &next as &[Option<Kind>],
            &chunk.iter().map(|task| task.verify).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.priority).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.max_retries).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.open_blockers).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.children).collect::<Vec<_>>(),
            &chunk.iter().map(|task| task.start_commit.clone()).collect::<Vec<_>>() as &[Option<String>],
            &chunk.iter().map(|task| task.start_ref.clone()).collect::<Vec<_>>() as &[Option<String>],
            &chunk.iter().map(|task| task.role).collect::<Vec<_>>() as &[Kind],
        )
        .execute(&mut *conn)
        .await?;
        sqlx::query!(
            "insert into task_texts (task_id, key, title, description, pool, agent, model, operation, paths)
             select t.task_id, t.key, t.title, t.description, t.pool, t.agent, t.model, t.operation,
                    array(select jsonb_array_elements_text(t.paths))
             from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::jsonb[], $9::jsonb[])
               as t(task_id, key, title, description, pool, agent, model, operation, paths)",
            &ids,
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
        )
        .execute(&mut *conn)
        .await?;
    }
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

/// A task's row.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Task {
    pub id: TaskId,
    pub feature: FeatureId,
    pub parent: Option<TaskId>,
    pub state: TaskState,
    pub role: Kind,
    pub next_kind: Option<Kind>,
    pub verify: bool,
    pub verification: Verification,
    pub held: bool,
    pub priority: i32,
    pub max_retries: i32,
    pub open_blockers: i32,
    pub children: i32,
    pub attempt: i32,
    pub dispatch: Option<Uuid>,
    pub trouble: Trouble,
    pub verify_tries: i16,
    pub start_commit: Option<String>,
    pub start_ref: Option<String>,
}

/// Locks tasks in the order of their ids. The caller holds their features, unless it only claims.
pub async fn lock(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Task>> {
    let rows = sqlx::query!(
        r#"select id, feature_id, parent_id, state as "state: TaskState", role as "role: Kind", next_kind as "next_kind: Kind", verify,
                  verification as "verification: Verification", held, priority, max_retries, open_blockers, children,
                  attempt, dispatch_id, failures, no_sigils, door_failures, lost_alone, conflicts, verify_tries,
                  start_commit, start_ref
           from tasks
           where id = any($1)
           order by id
           for no key update"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Task {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            parent: row.parent_id.map(TaskId),
            state: row.state,
            role: row.role,
            next_kind: row.next_kind,
            verify: row.verify,
            verification: row.verification,
            held: row.held,
            priority: row.priority,
            max_retries: row.max_retries,
            open_blockers: row.open_blockers,
            children: row.children,
            attempt: row.attempt,
            dispatch: row.dispatch_id,
            trouble: Trouble {
                failures: row.failures,
                no_sigils: row.no_sigils,
                door_failures: row.door_failures,
                lost_alone: row.lost_alone,
                conflicts: row.conflicts,
            },
            verify_tries: row.verify_tries,
            start_commit: row.start_commit,
            start_ref: row.start_ref,
        })
        .collect())
}

/// A claimed task, as its dispatch needs it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Claimed {
    pub id: TaskId,
    /// Number of the attempt that begins.
    pub attempt: i32,
    pub failures: i16,
    pub start_commit: Option<String>,
}

/// Moves the fences of tasks that were taken out of the queue: task, dispatch, and whether a new attempt begins. Locks them
/// in the order of their ids.
pub async fn claim(conn: &mut PgConnection, claims: &[(Uuid, Uuid, bool)]) -> sqlx::Result<Vec<Claimed>> {
    let rows = sqlx::query!(
        r#"with mine as (
             select t.id, c.dispatch_id, c.is_attempt
             from unnest($1::uuid[], $2::uuid[], $3::bool[]) as c(task_id, dispatch_id, is_attempt)
             join tasks t on t.id = c.task_id
             order by t.id
             for no key update of t
           )
           update tasks t
           set state = 'in_progress', dispatch_id = mine.dispatch_id, attempt = t.attempt + mine.is_attempt::int
           from mine
           where t.id = mine.id
           returning t.id, t.attempt, t.failures, t.start_commit"#,
        &claims.iter().map(|(task, ..)| *task).collect::<Vec<_>>(),
        &claims
            .iter()
            .map(|(_, dispatch, _)| *dispatch)
            .collect::<Vec<_>>(),
        &claims
            .iter()
            .map(|(.., is_attempt)| *is_attempt)
            .collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Claimed {
            id: TaskId(row.id),
            attempt: row.attempt,
            failures: row.failures,
            start_commit: row.start_commit,
        })
        .collect())
}

/// Writes what steps change on locked tasks. Parents, counters of blockers and children stay as they are.
pub async fn save(conn: &mut PgConnection, tasks: &[&Task]) -> sqlx::Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "update tasks
         set state = t.state, next_kind = t.next_kind, verification = t.verification, attempt = t.attempt,
             dispatch_id = t.dispatch_id, failures = t.failures, no_sigils = t.no_sigils,
             door_failures = t.door_failures, lost_alone = t.lost_alone, conflicts = t.conflicts,
             verify_tries = t.verify_tries, start_commit = t.start_commit, start_ref = t.start_ref
         from unnest($1::uuid[], $2::task_state[], $3::session_kind[], $4::verification[], $5::int[], $6::uuid[],
                     $7::smallint[], $8::smallint[], $9::smallint[], $10::smallint[], $11::smallint[],
                     $12::smallint[], $13::text[], $14::text[])
           as t(id, state, next_kind, verification, attempt, dispatch_id, failures, no_sigils, door_failures,
                lost_alone, conflicts, verify_tries, start_commit, start_ref)
         where tasks.id = t.id",
        &tasks.iter().map(|t| t.id.0).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.state).collect::<Vec<_>>() as &[TaskState],
        &tasks.iter().map(|t| t.next_kind).collect::<Vec<_>>() as &[Option<Kind>],
        &tasks.iter().map(|t| t.verification).collect::<Vec<_>>() as &[Verification],
        &tasks.iter().map(|t| t.attempt).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.dispatch).collect::<Vec<_>>() as &[Option<Uuid>],
        &tasks.iter().map(|t| t.trouble.failures).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.no_sigils).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.door_failures).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.lost_alone).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.conflicts).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.verify_tries).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.start_commit.clone()).collect::<Vec<_>>() as &[Option<String>],
        &tasks.iter().map(|t| t.start_ref.clone()).collect::<Vec<_>>() as &[Option<String>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Says on screens why a task failed or needs a person.
pub async fn explain(conn: &mut PgConnection, task: TaskId, reason: Option<&str>) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts set reason = $2 where task_id = $1",
        task.0,
        reason
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Turns a task into the parent of `children` new ones; it is not worked on itself any more.
pub async fn become_parent(conn: &mut PgConnection, task: TaskId, children: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "update tasks
         set children = children + $2, open_children = open_children + $2, next_kind = null
         where id = $1",
        task.0,
        children,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A task that lost a blocker.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Unblocked {
    pub id: TaskId,
    pub feature: FeatureId,
    /// Nothing blocks it any more.
    pub freed: bool,
    /// It was `blocked` and is `pending` now.
    pub opened: bool,
    pub is_parent: bool,
}

/// Takes a blocker from the dependents of each of `resolved`; a dependent of several loses several.
pub async fn unblock_dependents(conn: &mut PgConnection, resolved: &[Uuid]) -> sqlx::Result<Vec<Unblocked>> {
    let rows = sqlx::query!(
        r#"with hits as (
             select task_id, count(*)::int as n
             from dependencies
             where blocker_id = any($1)
             group by task_id
           ), locked as (
             select t.id, t.open_blockers - hits.n as left_over, t.state, hits.n
             from tasks t join hits on hits.task_id = t.id
             order by t.id
             for no key update of t
           )
           update tasks t
           set open_blockers = locked.left_over,
               state = case when locked.left_over = 0 and locked.state = 'blocked' then 'pending'::task_state else t.state end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.children > 0 as "is_parent!",
                     locked.left_over = 0 as "freed!",
                     (locked.left_over = 0 and locked.state = 'blocked') as "opened!""#,
        resolved,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Unblocked {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            freed: row.freed,
            opened: row.opened,
            is_parent: row.is_parent,
        })
        .collect())
}

/// Takes the one blocker that a closed parent was for its children.
pub async fn open_children_of(conn: &mut PgConnection, parents: &[Uuid]) -> sqlx::Result<Vec<Unblocked>> {
    let rows = sqlx::query!(
        r#"with locked as (
             select id, open_blockers - 1 as left_over, state
             from tasks
             where parent_id = any($1)
             order by id
             for no key update
           )
           update tasks t
           set open_blockers = locked.left_over,
               state = case when locked.left_over = 0 and locked.state = 'blocked' then 'pending'::task_state else t.state end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.children > 0 as "is_parent!",
                     locked.left_over = 0 as "freed!",
                     (locked.left_over = 0 and locked.state = 'blocked') as "opened!""#,
        parents,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Unblocked {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            freed: row.freed,
            opened: row.opened,
            is_parent: row.is_parent,
        })
        .collect())
}

/// A parent whose last child was resolved: what it was, and what it is now.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct ClosedParent {
    pub id: TaskId,
    pub feature: FeatureId,
    pub was: TaskState,
    pub now: TaskState,
}

/// Takes open children from the parents of each of `resolved`, and resolves those that have none left: done with a child
/// that is done (SPEC 2.4), else skipped with one that was skipped, else cancelled.
pub async fn resolve_parents(conn: &mut PgConnection, resolved: &[Uuid]) -> sqlx::Result<Vec<ClosedParent>> {
    let rows = sqlx::query!(
        r#"with hits as (
             select parent_id, count(*)::int as n
             from tasks
             where id = any($1) and parent_id is not null
             group by parent_id
           ), locked as (
             select t.id, t.open_children - hits.n as left_over, t.state,
                    t.open_children - hits.n = 0
                      and t.state not in ('done', 'cancelled', 'skipped')
                      as finished,
                    exists (select 1 from tasks c where c.parent_id = t.id and c.state = 'done') as some_done,
                    exists (select 1 from tasks c where c.parent_id = t.id and c.state = 'skipped') as some_skipped
             from tasks t join hits on hits.parent_id = t.id
             order by t.id
             for no key update of t
           ), updated as (
             update tasks t
             set open_children = locked.left_over,
                 state = case when not locked.finished then t.state
                              when locked.some_done then 'done'
                              when locked.some_skipped then 'skipped'
                              else 'cancelled' end
             from locked
             where t.id = locked.id
             returning t.id, t.feature_id, locked.state as was, t.state, locked.finished
           )
           select id as "id!", feature_id as "feature_id!", was as "was!: TaskState", state as "now!: TaskState"
           from updated
           where finished"#,
        resolved,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClosedParent {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            was: row.was,
            now: row.now,
        })
        .collect())
}

/// A task that another one's change moved: what it was.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Moved {
    pub id: TaskId,
    pub feature: FeatureId,
    pub was: TaskState,
}

/// Fails every ancestor that can still fail; returns what they were.
pub async fn fail_ancestors(conn: &mut PgConnection, failed: &[Uuid]) -> sqlx::Result<Vec<Moved>> {
    let rows = sqlx::query!(
        r#"with recursive up as (
             select parent_id as id from tasks where id = any($1) and parent_id is not null
             union
             select t.parent_id from tasks t join up on t.id = up.id where t.parent_id is not null
           ), locked as (
             select t.id, t.state
             from tasks t join up on up.id = t.id
             where t.state in ('pending', 'blocked', 'in_progress')
             order by t.id
             for no key update of t
           )
           update tasks t
           set state = 'failed'
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, locked.state as "was!: TaskState""#,
        failed,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Moved {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            was: row.was,
        })
        .collect())
}

/// Holds or frees everything below `roots` (themselves left out); returns nothing to claim of it any more.
pub async fn hold_below(conn: &mut PgConnection, roots: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with recursive below as (
           select id from tasks where parent_id = any($1)
           union
           select t.id from tasks t join below on t.parent_id = below.id
         ), marked as (
           update tasks set held = true where id in (select id from below) and not held returning id
         )
         delete from ready_tasks where task_id in (select id from below)",
        roots,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes back what [`hold_below`] did, unless another task directly below the same parent is still failed;
/// returns what is let go and pending.
pub async fn release_below(conn: &mut PgConnection, parent: TaskId) -> sqlx::Result<Vec<Uuid>> {
    let rows = sqlx::query!(
        r#"with recursive below as (
             select id from tasks where parent_id = $1
             union
             select t.id from tasks t join below on t.parent_id = below.id
           )
           update tasks set held = false
           where id in (select id from below) and held
             and not exists (select from tasks s where s.parent_id = $1 and s.state = 'failed')
           returning id, state = 'pending' and children = 0 as "pending!""#,
        parent.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .filter(|row| row.pending)
        .map(|row| row.id)
        .collect())
}

/// Sets the model that an agent asked for its task's next attempt (SPEC 4.1, `next-model`).
pub async fn set_model(conn: &mut PgConnection, task: TaskId, model: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts set model = $2 where task_id = $1",
        task.0,
        model
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The pool that a task asks for.
pub async fn pool_of(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<String> {
    sqlx::query_scalar!("select pool from task_texts where task_id = $1", task.0)
        .fetch_one(conn)
        .await
}

/// The feature of a task.
pub async fn feature_of(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<FeatureId>> {
    let id = sqlx::query_scalar!("select feature_id from tasks where id = $1", task.0)
        .fetch_optional(conn)
        .await?;
    Ok(id.map(FeatureId))
}

/// Notes what was done to a task, by whom and why.
pub async fn log(
    conn: &mut PgConnection,
    task: TaskId,
    actor: &str,
    what: &str,
    why: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into task_logs (task_id, actor, what, why) values ($1, $2, $3, $4)",
        task.0,
        actor,
        what,
        why,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Gives dependents a blocker back whose state no longer satisfies them; only those that have not started. Returns those
/// that were pending.
pub async fn block_dependents(conn: &mut PgConnection, blockers: &[Uuid]) -> sqlx::Result<Vec<Moved>> {
    let rows = sqlx::query!(
        r#"with hits as (
             select d.task_id, count(*)::int as n
             from dependencies d
             where d.blocker_id = any($1)
             group by d.task_id
           ), locked as (
             select t.id, t.state, hits.n
             from tasks t join hits on hits.task_id = t.id
             order by t.id
             for no key update of t
           ), updated as (
             update tasks t
             set open_blockers = t.open_blockers + locked.n,
                 state = case when locked.state = 'pending' then 'blocked'::task_state else t.state end
             from locked
             where t.id = locked.id
             returning t.id, t.feature_id, locked.state as was
           ), withdrawn as (
             delete from ready_tasks where task_id in (select id from updated where was = 'pending')
           )
           select id as "id!", feature_id as "feature_id!", was as "was!: TaskState"
           from updated
           where was = 'pending'"#,
        blockers,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Moved {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            was: row.was,
        })
        .collect())
}

/// Gives parents an open child back for each of `tasks` that was resolved and isn't any more.
pub async fn reopen_parents(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update tasks p
         set open_children = p.open_children + hits.n
         from (
           select parent_id, count(*)::int as n from tasks where id = any($1) and parent_id is not null group by parent_id
         ) hits
         where p.id = hits.parent_id",
        tasks,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// An ancestor whose failure was taken back.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Reopened {
    pub id: TaskId,
    pub feature: FeatureId,
    pub now: TaskState,
}

/// Takes back the failure of the ancestors of `tasks`; returns what they are now.
pub async fn unfail_ancestors(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Reopened>> {
    let rows = sqlx::query!(
        r#"with recursive up as (
             select parent_id as id from tasks where id = any($1) and parent_id is not null
             union
             select t.parent_id from tasks t join up on t.id = up.id where t.parent_id is not null
           ), locked as (
             select t.id
             from tasks t join up on up.id = t.id
             where t.state = 'failed'
             order by t.id
             for no key update of t
           )
           update tasks t
           set state = case when t.open_blockers > 0 then 'blocked'::task_state else 'pending' end
           from locked
           where t.id = locked.id
           returning t.id, t.feature_id, t.state as "state!: TaskState""#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Reopened {
            id: TaskId(row.id),
            feature: FeatureId(row.feature_id),
            now: row.state,
        })
        .collect())
}

/// How many tasks stand above one.
pub async fn depth(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<i32> {
    sqlx::query_scalar!(
        r#"with recursive up as (
             select parent_id as id from tasks where id = $1 and parent_id is not null
             union
             select t.parent_id from tasks t join up on t.id = up.id where t.parent_id is not null
           )
           select count(*)::int as "n!" from up"#,
        task.0,
    )
    .fetch_one(conn)
    .await
}

/// Leaves below a task that failed or wait for a person.
pub async fn failed_leaves_below(conn: &mut PgConnection, parent: TaskId) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive below as (
             select id, children, state from tasks where parent_id = $1
             union
             select t.id, t.children, t.state from tasks t join below b on t.parent_id = b.id
           )
           select id as "id!" from below where children = 0 and state in ('failed', 'needs_review') order by id"#,
        parent.0,
    )
    .fetch_all(conn)
    .await
}

/// The state of a task.
pub async fn state_of(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<TaskState>> {
    sqlx::query_scalar!(
        r#"select state as "state: TaskState" from tasks where id = $1"#,
        task.0
    )
    .fetch_optional(conn)
    .await
}

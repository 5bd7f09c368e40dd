//! A single task: its row while a step holds it, and single facts.

use std::collections::BTreeSet;

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::failure::retry::Trouble;
use crate::domain::states::{TaskState, Verification};

#[derive(Debug, Clone)]
pub struct Task {
    pub id: TaskId,
    pub feature: FeatureId,
    pub parent: Option<TaskId>,
    pub state: TaskState,
    pub role: SessionKind,
    pub next_kind: Option<SessionKind>,
    pub verify: bool,
    pub verification: Verification,
    pub held: bool,
    pub priority: i32,
    pub max_retries: i32,
    pub open_blockers: i32,
    pub children: i32,
    pub attempt: i32,
    pub dispatch: Option<DispatchId>,
    pub trouble: Trouble,
    pub verify_tries: i16,
    pub start_commit: Option<String>,
    pub start_ref: Option<String>,
}

impl Task {
    /// The state of an unfinished task without a dispatch: its blockers may have reopened since its start.
    pub fn waiting(&self) -> TaskState {
        if self.open_blockers > 0 {
            TaskState::Blocked
        } else {
            TaskState::Pending
        }
    }
}

/// Locks tasks in the order of their ids. The caller holds their features, unless it only claims.
pub async fn lock(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Task>> {
    let rows = sqlx::query!(
        r#"select id, feature_id, parent_id, state as "state: TaskState", role as "role: SessionKind", next_kind as "next_kind: SessionKind", verify,
                  verification as "verification: Verification", held, priority, max_retries, open_blockers, children,
                  attempt, dispatch_id, failures, too_hard, no_sigils, door_failures, lost_alone, lost_with_others, conflicts, verify_tries,
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
            dispatch: row.dispatch_id.map(DispatchId),
            trouble: Trouble {
                failures: row.failures,
                too_hard: row.too_hard,
                no_sigils: row.no_sigils,
                door_failures: row.door_failures,
                lost_alone: row.lost_alone,
                lost_with_others: row.lost_with_others,
                conflicts: row.conflicts,
            },
            verify_tries: row.verify_tries,
            start_commit: row.start_commit,
            start_ref: row.start_ref,
        })
        .collect())
}

/// Writes changes of locked tasks, without parents and counters of blockers and children.
pub async fn save(conn: &mut PgConnection, tasks: &[&Task]) -> sqlx::Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "update tasks
         set state = t.state, next_kind = t.next_kind, verification = t.verification, attempt = t.attempt,
             dispatch_id = t.dispatch_id, failures = t.failures, no_sigils = t.no_sigils,
             door_failures = t.door_failures, lost_alone = t.lost_alone, lost_with_others = t.lost_with_others,
             conflicts = t.conflicts, verify_tries = t.verify_tries, start_commit = t.start_commit, start_ref = t.start_ref,
             too_hard = t.too_hard
         from unnest($1::uuid[], $2::task_state[], $3::session_kind[], $4::verification[], $5::int[], $6::uuid[],
                     $7::smallint[], $8::smallint[], $9::smallint[], $10::smallint[], $11::smallint[],
                     $12::smallint[], $13::smallint[], $14::text[], $15::text[], $16::smallint[])
           as t(id, state, next_kind, verification, attempt, dispatch_id, failures, no_sigils, door_failures,
                lost_alone, lost_with_others, conflicts, verify_tries, start_commit, start_ref, too_hard)
         where tasks.id = t.id",
        &tasks.iter().map(|t| t.id.0).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.state).collect::<Vec<_>>() as &[TaskState],
        &tasks.iter().map(|t| t.next_kind).collect::<Vec<_>>() as &[Option<SessionKind>],
        &tasks.iter().map(|t| t.verification).collect::<Vec<_>>() as &[Verification],
        &tasks.iter().map(|t| t.attempt).collect::<Vec<_>>(),
        &tasks
            .iter()
            .map(|t| t.dispatch.map(|dispatch| dispatch.0))
            .collect::<Vec<_>>() as &[Option<Uuid>],
        &tasks.iter().map(|t| t.trouble.failures).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.no_sigils).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.door_failures).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.lost_alone).collect::<Vec<_>>(),
        &tasks
            .iter()
            .map(|t| t.trouble.lost_with_others)
            .collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.trouble.conflicts).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.verify_tries).collect::<Vec<_>>(),
        &tasks.iter().map(|t| t.start_commit.clone()).collect::<Vec<_>>() as &[Option<String>],
        &tasks.iter().map(|t| t.start_ref.clone()).collect::<Vec<_>>() as &[Option<String>],
        &tasks.iter().map(|t| t.trouble.too_hard).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Sets the reason why a task failed or needs a person.
pub async fn explain(conn: &mut PgConnection, task: TaskId, reason: Option<&str>) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts set reason = $2 where task_id = $1 and reason is distinct from $2",
        task.0,
        reason
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A task whose state another task changed, with its earlier state.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    pub id: TaskId,
    pub feature: FeatureId,
    pub was: TaskState,
}

/// Sets the model that an agent requested for its task's next attempt or, once the task is done, for the
/// tasks that it frees (SPEC 4.1, `next-model`). `None` when the attempt with that model is over.
pub async fn hint_model(conn: &mut PgConnection, task: TaskId, model: Option<&str>) -> sqlx::Result<()> {
    sqlx::query!(
        "update task_texts set hinted_model = $2 where task_id = $1",
        task.0,
        model
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Passes the models that agents requested on to the tasks that `done` ones freed.
pub async fn pass_models_on(conn: &mut PgConnection, done: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with hinted as materialized (
           select task_id, hinted_model from task_texts where task_id = any($1) and hinted_model is not null
         ), hint as materialized (
           select distinct on (d.task_id) d.task_id, b.hinted_model as model
           from hinted b
           cross join lateral (select task_id from dependencies where blocker_id = b.task_id order by task_id) d
           cross join lateral (select state, open_blockers from tasks where id = d.task_id limit 1) t
           where t.state = 'pending' and t.open_blockers = 0
           order by d.task_id, b.task_id desc
         )
         update task_texts x
         set hinted_model = (select model from hint where hint.task_id = x.task_id)
         where x.task_id = any(array(select task_id from hint))",
        done,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn pool_of(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<String> {
    sqlx::query_scalar!("select pool from task_texts where task_id = $1", task.0)
        .fetch_one(conn)
        .await
}

/// Keys of a feature's tasks with this prefix.
pub async fn keys_beginning(
    conn: &mut PgConnection,
    feature: FeatureId,
    key: &str,
) -> sqlx::Result<BTreeSet<String>> {
    let keys = sqlx::query_scalar!(
        "select x.key
         from tasks t
         join task_texts x on x.task_id = t.id
         where t.feature_id = $1 and starts_with(x.key, $2)",
        feature.0,
        key,
    )
    .fetch_all(conn)
    .await?;
    Ok(keys.into_iter().collect())
}

pub async fn feature_of(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<FeatureId>> {
    let id = sqlx::query_scalar!("select feature_id from tasks where id = $1", task.0)
        .fetch_optional(conn)
        .await?;
    Ok(id.map(FeatureId))
}

/// Logs an action on a task, with its actor and reason.
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

pub async fn state_of(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<TaskState>> {
    sqlx::query_scalar!(
        r#"select state as "state: TaskState" from tasks where id = $1"#,
        task.0
    )
    .fetch_optional(conn)
    .await
}

//! Outbox of notices to people.

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use sqlx::PgConnection;
use sqlx::types::time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::states::RunOutcome;

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "notice_event", rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Event {
    RunEnded,
    /// A task needs a person.
    PersonNeeded,
    /// Agents of a pool do not start.
    PoolPaused,
    /// A feature is unfinished at its deadline.
    DeadlinePassed,
    /// A part of a limit is used up.
    BudgetUsed,
    /// A worker is drained, since everything fails there.
    WorkerDrained,
}

impl Event {
    pub const ALL: [Self; 6] = [
        Self::RunEnded,
        Self::PersonNeeded,
        Self::PoolPaused,
        Self::DeadlinePassed,
        Self::BudgetUsed,
        Self::WorkerDrained,
    ];
}

pub async fn run_ended(
    conn: &mut PgConnection,
    feature: FeatureId,
    run: RunId,
    outcome: RunOutcome,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into notices (id, event, feature_id, run_id, outcome, reason)
         values ($1, 'run_ended', $2, $3, $4, $5)",
        Uuid::now_v7(),
        feature.0,
        run.0,
        outcome as RunOutcome,
        reason,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn person_needed(conn: &mut PgConnection, task: TaskId, reason: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into notices (id, event, feature_id, run_id, task_id, reason)
         select $1, 'person_needed', t.feature_id, f.current_run, t.id, $3
         from tasks t
         join features f on f.id = t.feature_id
         where t.id = $2",
        Uuid::now_v7(),
        task.0,
        reason,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records that the agent of this task's session did not start. At the `notice_at`-th consecutive failure of
/// that agent in its pool, writes a notice, once until a session starts.
pub async fn record_failed_start(
    conn: &mut PgConnection,
    task: TaskId,
    agent: &str,
    reason: &str,
    notice_at: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "with counted as (
           insert into closed_doors as d (pool, agent, failures)
           select pool, $5, 1 from task_texts where task_id = $1
           on conflict (pool, agent) do update
           set failures = d.failures + 1
           returning pool, failures
         )
         insert into notices (id, event, pool, reason)
         select $2, 'pool_paused', pool, $3 from counted where failures = $4",
        task.0,
        Uuid::now_v7(),
        reason,
        notice_at,
        agent,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A notice to deliver, with the present names of its subjects.
#[derive(Debug, Clone)]
pub struct Notice {
    pub id: Uuid,
    pub event: Event,
    pub at: OffsetDateTime,
    pub feature: Option<FeatureId>,
    pub feature_name: Option<String>,
    pub run: Option<RunId>,
    pub outcome: Option<RunOutcome>,
    pub task: Option<TaskId>,
    pub task_key: Option<String>,
    pub task_title: Option<String>,
    pub pool: Option<String>,
    pub reason: String,
    pub tries: i32,
    /// Whether the address received it.
    pub posted: bool,
    /// Whether the command ran on it.
    pub commanded: bool,
}

/// Takes due notices, none older than `max_age_s`. They are due again after `lease_s`, in case this
/// coordinator dies. Seconds.
pub async fn take(
    conn: &mut PgConnection,
    most: i64,
    max_age_s: f64,
    lease_s: f64,
) -> sqlx::Result<Vec<Notice>> {
    sqlx::query_as!(
        Notice,
        r#"with due as (
             select id from notices
             where closed_at is null and next_at <= now() and at > now() - make_interval(secs => $2)
             order by next_at
             limit $1
             for update skip locked
           ), taken as (
             update notices n
             set next_at = now() + make_interval(secs => $3)
             from due
             where n.id = due.id
             returning n.*
           )
           select n.id as "id!", n.event as "event!: Event", n.at as "at!", n.feature_id as "feature?: FeatureId",
                  f.name as "feature_name?", n.run_id as "run?: RunId", n.outcome as "outcome?: RunOutcome",
                  n.task_id as "task?: TaskId", x.key as "task_key?", x.title as "task_title?", n.pool as "pool?", n.reason as "reason!",
                  n.tries as "tries!", n.posted as "posted!", n.commanded as "commanded!"
           from taken n
           left join features f on f.id = n.feature_id
           left join task_texts x on x.task_id = n.task_id
           order by n.at"#,
        most,
        max_age_s,
        lease_s,
    )
    .fetch_all(conn)
    .await
}

/// Records that the address received a notice.
pub async fn posted(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("update notices set posted = true where id = $1", id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Records that the command ran on a notice.
pub async fn commanded(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("update notices set commanded = true where id = $1", id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Closes a notice: delivered, or given up with an error.
pub async fn close(conn: &mut PgConnection, id: Uuid, error: Option<&str>) -> sqlx::Result<()> {
    sqlx::query!(
        "update notices set closed_at = now(), error = $2 where id = $1",
        id,
        error
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records a failed delivery; the next one is due after `delay_s`.
pub async fn again(conn: &mut PgConnection, id: Uuid, delay_s: f64, error: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update notices set tries = tries + 1, next_at = now() + make_interval(secs => $2), error = $3 where id = $1",
        id,
        delay_s,
        error,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes notices older than `days`, delivered or not.
pub async fn prune(conn: &mut PgConnection, days: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from notices where at < now() - make_interval(days => $1)",
        days
    )
    .execute(conn)
    .await?;
    Ok(())
}

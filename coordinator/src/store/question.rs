//! Questions of agents to a person, their answers, and other messages of people to running sessions.

use std::collections::HashMap;

use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::sigil::Question;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::question::TaskQuestion;
use crate::store::dispatch::DispatchState;

/// Stores a session's questions that nobody saw while it ran, once its report is applied.
pub async fn keep(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    task: TaskId,
    asked: &[String],
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into questions (id, dispatch_id, task_id, asked)
         select gen_random_uuid(), $1, $2, asked from unnest($3::text[]) as q(asked)",
        dispatch.0,
        task.0,
        asked,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores a session's question, which waits for `wait_ms`, or not at all. Returns whether it is new.
pub async fn insert(
    conn: &mut PgConnection,
    id: Uuid,
    (dispatch, task): (DispatchId, TaskId),
    question: &Question,
    wait_ms: i64,
) -> sqlx::Result<bool> {
    let stored = sqlx::query!(
        "insert into questions (id, dispatch_id, task_id, asked, choices, waits_until)
         values ($1, $2, $3, $4, $5, case when $6::bigint > 0 then now() + $6 * interval '1 millisecond' end)
         on conflict (id) do nothing",
        id,
        dispatch.0,
        task.0,
        question.asked,
        &question.choices,
        wait_ms,
    )
    .execute(conn)
    .await?;
    Ok(stored.rows_affected() == 1)
}

pub async fn count_of(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from questions where dispatch_id = $1"#,
        dispatch.0
    )
    .fetch_one(conn)
    .await
}

/// The time for which a session's question still waits; `None` if it does not wait or belongs to another
/// session. Milliseconds.
pub async fn waits_ms(conn: &mut PgConnection, id: Uuid, dispatch: DispatchId) -> sqlx::Result<Option<i64>> {
    let remaining = sqlx::query_scalar!(
        // `greatest` would turn a null, which means that the session does not wait, into 0.
        "select case when waits_until is not null
                  then greatest(extract(epoch from waits_until - now()) * 1000, 0)::bigint end
         from questions
         where id = $1 and dispatch_id = $2",
        id,
        dispatch.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(remaining.flatten())
}

/// All questions of a task, in the order of asking.
pub async fn of_task(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Vec<TaskQuestion>> {
    let rows = sqlx::query!(
        r#"select q.id, q.dispatch_id, q.asked, q.choices, q.waits_until is not null as "waits!", q.answer, q.answered_by,
                  q.answered_at, coalesce(d.failure = 'unanswered', false) as "ended!",
                  coalesce(t.dispatch_id = d.id and d.state = 'live', false) as "live!", d.worker
           from questions q
           join dispatches d on d.id = q.dispatch_id
           join tasks t on t.id = q.task_id
           where q.task_id = $1
           order by q.asked_at, q.id"#,
        task.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| TaskQuestion {
            id: row.id,
            dispatch: DispatchId(row.dispatch_id),
            question: Question {
                asked: row.asked,
                choices: row.choices,
            },
            waits: row.waits,
            ended: row.ended,
            live_on: row.live.then_some(row.worker),
            answer: row
                .answer
                .zip(row.answered_by)
                .zip(row.answered_at)
                .map(|((text, by), at)| (text, by, at)),
        })
        .collect())
}

/// Answers a question; `false` when it has an answer already.
pub async fn answer(conn: &mut PgConnection, id: Uuid, text: &str, by: &str) -> sqlx::Result<bool> {
    let answered = sqlx::query!(
        "update questions set answer = $2, answered_by = $3, answered_at = now() where id = $1 and answer is null",
        id,
        text,
        by,
    )
    .execute(conn)
    .await?;
    Ok(answered.rows_affected() == 1)
}

/// The newest unanswered question that each of these sessions waits for, as text.
pub async fn unanswered(
    conn: &mut PgConnection,
    dispatches: &[Uuid],
) -> sqlx::Result<HashMap<DispatchId, String>> {
    let rows = sqlx::query!(
        "select dispatch_id, asked, choices
         from questions
         where dispatch_id = any($1) and answer is null and waits_until is not null
         order by asked_at desc, id desc",
        dispatches,
    )
    .fetch_all(conn)
    .await?;
    let asked = rows.into_iter().map(|row| {
        let question = Question {
            asked: row.asked,
            choices: row.choices,
        };
        (DispatchId(row.dispatch_id), question.words())
    });
    Ok(asked.collect())
}

/// Sends a message to a running session, or answers its question.
pub async fn say(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    question: Option<Uuid>,
    by: &str,
    text: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into said (id, dispatch_id, question_id, actor, body) values ($1, $2, $3, $4, $5)",
        Uuid::now_v7(),
        dispatch.0,
        question,
        by,
        text,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A message that its session has not received yet.
#[derive(Debug, Clone)]
pub struct Unheard {
    pub id: Uuid,
    pub dispatch: DispatchId,
    /// The question that it answers, and its words.
    pub question: Option<(Uuid, String)>,
    pub by: String,
    pub text: String,
}

/// Messages that these sessions have not received yet, the first `limit`.
pub async fn unheard(conn: &mut PgConnection, dispatches: &[Uuid], limit: i64) -> sqlx::Result<Vec<Unheard>> {
    let rows = sqlx::query!(
        r#"select s.id, s.dispatch_id, s.question_id, q.asked as "asked?", s.actor, s.body
           from said s
           left join questions q on q.id = s.question_id
           where s.dispatch_id = any($1) and s.heard_at is null
           order by s.at, s.id
           limit $2"#,
        dispatches,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let unheard = rows.into_iter().map(|row| Unheard {
        id: row.id,
        dispatch: DispatchId(row.dispatch_id),
        question: row.question_id.zip(row.asked),
        by: row.actor,
        text: row.body,
    });
    Ok(unheard.collect())
}

/// Records that a worker passed these messages to its sessions.
pub async fn heard(conn: &mut PgConnection, worker: &str, ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update said s
         set heard_at = now()
         from dispatches d
         where s.id = any($1) and d.id = s.dispatch_id and d.worker = $2 and s.heard_at is null",
        ids,
        worker,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A question as people see it.
#[derive(Debug, Clone)]
pub struct Shown {
    pub id: Uuid,
    pub dispatch: DispatchId,
    pub state: DispatchState,
    pub question: Question,
    pub asked_at: OffsetDateTime,
    pub waits_until: Option<OffsetDateTime>,
    pub answer: Option<String>,
    pub answered_by: Option<String>,
    pub answered_at: Option<OffsetDateTime>,
}

/// Questions of these sessions, in the order of asking.
pub async fn of_dispatches(conn: &mut PgConnection, dispatches: &[Uuid]) -> sqlx::Result<Vec<Shown>> {
    let rows = sqlx::query!(
        r#"select q.id, q.dispatch_id, d.state as "state: DispatchState", q.asked, q.choices, q.asked_at, q.waits_until, q.answer,
                  q.answered_by, q.answered_at
           from questions q
           join dispatches d on d.id = q.dispatch_id
           where q.dispatch_id = any($1)
           order by q.asked_at, q.id"#,
        dispatches,
    )
    .fetch_all(conn)
    .await?;
    let shown = rows.into_iter().map(|row| Shown {
        id: row.id,
        dispatch: DispatchId(row.dispatch_id),
        state: row.state,
        question: Question {
            asked: row.asked,
            choices: row.choices,
        },
        asked_at: row.asked_at,
        waits_until: row.waits_until,
        answer: row.answer,
        answered_by: row.answered_by,
        answered_at: row.answered_at,
    });
    Ok(shown.collect())
}

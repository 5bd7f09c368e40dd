//! Dispatches: running sessions and past attempts.

use std::collections::HashMap;

pub use ralph_api::view::{DispatchView, QuestionView, SessionView, TranscriptOf};
use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::states::Outcome;
use crate::store;
use crate::store::dispatch::DispatchState;
use crate::store::dispatch::earlier::known;
use crate::store::question::Shown;

impl From<Shown> for QuestionView {
    fn from(shown: Shown) -> Self {
        let waits = shown.state == DispatchState::Live && shown.answer.is_none();
        Self {
            id: shown.id,
            asked: shown.question.asked,
            choices: shown.question.choices,
            asked_at: shown.asked_at,
            waits_until: shown.waits_until.filter(|_| waits),
            answer: shown.answer,
            answered_by: shown.answered_by,
            answered_at: shown.answered_at,
        }
    }
}

fn word(state: DispatchState) -> &'static str {
    match state {
        DispatchState::Live => "live",
        DispatchState::Settled => "settled",
        DispatchState::Lost => "lost",
        DispatchState::Superseded => "superseded",
    }
}

/// The last `limit` dispatches of a task, oldest first.
pub async fn dispatches_of_task(
    conn: &mut PgConnection,
    task: TaskId,
    limit: i64,
) -> sqlx::Result<Vec<DispatchView>> {
    let rows = sqlx::query!(
        r#"select id, task_id, run_id, kind as "kind: SessionKind", attempt, state as "state: DispatchState",
                  outcome as "outcome: Outcome", failure as "failure: Failure", reason, worker, agent, model, model_reason, model_used, journal, journal_doubted_by is not null as "journal_doubted!", feedback, start_commit, commit,
                  pushed_ref, pruned_at, strays::text as strays, files_changed, (change -> 'tests')::text as test_changes, gate_times::text as gate_times, stop_reason, duration_ms,
                  input_tokens, output_tokens, cost_usd, cost_basis::text as cost_basis, tool_calls, malformed_sigils,
                  claimed_at, settled_at
           from dispatches
           where task_id = $1
           order by claimed_at desc, id desc
           limit $2"#,
        task.0,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut questions = questions(conn, &ids).await?;
    Ok(rows
        .into_iter()
        .rev()
        .map(|row| DispatchView {
            id: DispatchId(row.id).short(),
            task: TaskId(row.task_id).short(),
            run: RunId(row.run_id).short(),
            kind: row.kind,
            attempt: row.attempt,
            status: word(row.state).to_owned(),
            outcome: row.outcome,
            failure: row.failure,
            reason: row.reason,
            worker: row.worker,
            agent: row.agent,
            model: row.model,
            model_reason: row.model_reason,
            model_used: row.model_used,
            journal: row.journal,
            journal_doubted: row.journal_doubted,
            feedback: row.feedback,
            start_commit: row.start_commit,
            commit: row.commit,
            pushed_ref: row.pushed_ref,
            pruned_at: row.pruned_at,
            strays: parsed(row.strays),
            files_changed: row.files_changed.unwrap_or_default(),
            test_changes: parsed(row.test_changes),
            gate_times: parsed(row.gate_times),
            questions: questions.remove(&row.id).unwrap_or_default(),
            stop_reason: row.stop_reason,
            duration_ms: known(row.duration_ms),
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost_usd: row.cost_usd,
            cost_basis: row.cost_basis,
            tool_calls: row.tool_calls,
            malformed_sigils: row.malformed_sigils,
            started_at: row.claimed_at,
            ended_at: row.settled_at,
        })
        .collect())
}

async fn questions(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<HashMap<Uuid, Vec<QuestionView>>> {
    let mut questions: HashMap<Uuid, Vec<QuestionView>> = HashMap::new();
    for shown in store::question::of_dispatches(conn, ids).await? {
        let of_dispatch = questions.entry(shown.dispatch.0).or_default();
        of_dispatch.push(QuestionView::from(shown));
    }
    Ok(questions)
}

fn parsed<T: DeserializeOwned + Default>(text: Option<String>) -> T {
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// Running sessions, longest first, at most `limit`; of one feature if given.
pub async fn sessions(
    conn: &mut PgConnection,
    feature: Option<FeatureId>,
    limit: i64,
) -> sqlx::Result<Vec<SessionView>> {
    let rows = sqlx::query!(
        r#"select d.id, d.kind as "kind: SessionKind", d.task_id, x.title, x.key, f.name as feature_name, d.feature_id, d.attempt, d.worker, d.model,
                  d.claimed_at, (extract(epoch from now() - d.claimed_at) * 1000)::bigint as "elapsed_ms!"
           from dispatches d
           join task_texts x on x.task_id = d.task_id
           join features f on f.id = d.feature_id
           where d.state = 'live' and ($1::uuid is null or d.feature_id = $1)
           order by d.claimed_at, d.id
           limit $2"#,
        feature.map(|f| f.0),
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut asked = match ids.is_empty() {
        true => HashMap::new(),
        false => store::question::unanswered(conn, &ids).await?,
    };
    Ok(rows
        .into_iter()
        .map(|row| SessionView {
            asks: asked.remove(&DispatchId(row.id)),
            id: DispatchId(row.id).short(),
            kind: row.kind,
            task: TaskId(row.task_id).short(),
            key: row.key,
            feature_name: row.feature_name,
            title: row.title,
            feature: FeatureId(row.feature_id).short(),
            attempt: row.attempt,
            worker: row.worker,
            model: row.model,
            started_at: row.claimed_at,
            elapsed_ms: row.elapsed_ms.max(0),
        })
        .collect())
}

/// The dispatch of a task to show: the last one of `attempt` and `kind`, where given. With an attempt alone,
/// prefers the agent's work to its verification. Omits integrations, which have no agent.
pub async fn session_of_task(
    conn: &mut PgConnection,
    task: TaskId,
    attempt: Option<i32>,
    kind: Option<SessionKind>,
) -> sqlx::Result<Option<DispatchId>> {
    let id = sqlx::query_scalar!(
        "select id
         from dispatches
         where task_id = $1 and kind <> 'integrate'
           and (kind <> 'check' or (select role from tasks where id = $1) = 'check') and ($2::int is null or attempt = $2)
           and case when $3::session_kind is null then $2 is null or kind <> 'verify' else kind = $3 end
         order by claimed_at desc, id desc
         limit 1",
        task.0,
        attempt,
        kind as Option<SessionKind>,
    )
    .fetch_optional(conn)
    .await?;
    Ok(id.map(DispatchId))
}

/// Whether a dispatch is one of a task's.
pub async fn is_of_task(conn: &mut PgConnection, dispatch: DispatchId, task: TaskId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (select from dispatches where id = $1 and task_id = $2) as "is!""#,
        dispatch.0,
        task.0,
    )
    .fetch_one(conn)
    .await
}

/// The first session of an attempt, or of the last attempt. Sessions that judge the attempt leave no memory.
pub async fn beginning_of_attempt(
    conn: &mut PgConnection,
    task: TaskId,
    attempt: Option<i32>,
) -> sqlx::Result<Option<DispatchId>> {
    let id = sqlx::query_scalar!(
        "select id
         from dispatches
         where task_id = $1 and kind not in ('verify', 'integrate', 'git', 'check') and ($2::int is null or attempt = $2)
         order by claimed_at desc, id desc
         limit 1",
        task.0,
        attempt,
    )
    .fetch_optional(conn)
    .await?;
    Ok(id.map(DispatchId))
}

/// The task's first dispatch after another, or its first. Omits integrations.
pub async fn dispatch_after(
    conn: &mut PgConnection,
    task: TaskId,
    after: Option<DispatchId>,
) -> sqlx::Result<Option<DispatchId>> {
    let id = sqlx::query_scalar!(
        "select id
         from dispatches
         where task_id = $1 and kind <> 'integrate'
           and (kind <> 'check' or (select role from tasks where id = $1) = 'check')
           and ($2::uuid is null or (claimed_at, id) > (select claimed_at, id from dispatches where id = $2))
         order by claimed_at, id
         limit 1",
        task.0,
        after.map(|d| d.0),
    )
    .fetch_optional(conn)
    .await?;
    Ok(id.map(DispatchId))
}

/// Task, attempt and worker of a dispatch's transcript.
pub async fn of_dispatch(conn: &mut PgConnection, id: DispatchId) -> sqlx::Result<Option<TranscriptOf>> {
    let row = sqlx::query!(
        r#"select task_id, kind as "kind: SessionKind", attempt, worker, state = 'live' as "live!" from dispatches where id = $1"#,
        id.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| TranscriptOf {
        dispatch: id.short(),
        task: TaskId(row.task_id).short(),
        kind: row.kind,
        attempt: row.attempt,
        worker: row.worker,
        live: row.live,
    }))
}

/// Whether the feature of a task runs.
pub async fn feature_of_task_runs(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<bool> {
    let runs = sqlx::query_scalar!(
        r#"select f.state in ('running', 'paused') as "runs!"
           from tasks t
           join features f on f.id = t.feature_id
           where t.id = $1"#,
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(runs.unwrap_or(false))
}

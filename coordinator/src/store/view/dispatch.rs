//! Dispatches: the sessions that run, and the attempts that were.

use std::collections::HashMap;

use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::Question;
use ralph_shared::wire::{StepTime, Stray, TestChange};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::states::Outcome;
use crate::store;
use crate::store::dispatch::DispatchState;
use crate::store::dispatch::earlier::known;
use crate::store::question::Shown;

/// One session that was handed to a worker, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DispatchView {
    pub id: String,
    pub task: String,
    pub run: String,
    pub kind: SessionKind,
    pub attempt: i32,
    /// `live`, `settled`, `lost`, `superseded`.
    pub status: String,
    pub outcome: Option<Outcome>,
    /// Why it came to nothing, if it did: a reason of `docs/failures.md`.
    #[serde(default)]
    pub failure: Option<Failure>,
    pub reason: Option<String>,
    pub worker: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub model_reason: Option<String>,
    /// The model that its agent really worked with, where that told one and it isn't [`Self::model`].
    #[serde(default)]
    pub model_used: Option<String>,
    pub journal: Option<String>,
    /// Whether the journal quotes what was revoked: no prompt shows it any more.
    #[serde(default)]
    pub journal_doubted: bool,
    pub feedback: Option<String>,
    /// Where it began.
    #[serde(default)]
    pub start_commit: Option<String>,
    pub commit: Option<String>,
    pub pushed_ref: Option<String>,
    /// When a worker had removed that ref.
    #[serde(with = "time::serde::rfc3339::option")]
    pub pruned_at: Option<OffsetDateTime>,
    /// What the agent committed elsewhere than under the files that it left; pushed to refs beside that one, and removed
    /// with it.
    #[serde(default)]
    pub strays: Vec<Stray>,
    pub files_changed: Vec<String>,
    /// What became weaker in tests, as far as that can be seen from lines; a hint for whoever judges.
    #[serde(default)]
    pub test_changes: Vec<TestChange>,
    /// The commands of the gate that it ran, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_times: Vec<StepTime>,
    /// What it asked of a person, in that order.
    #[serde(default)]
    pub questions: Vec<QuestionView>,
    pub stop_reason: Option<String>,
    /// From its assignment to its report, or, where its worker died, to that worker's last heartbeat, as far as that is known.
    pub duration_ms: Option<i64>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    /// How its cost is known: `known` (told, or computed from tokens), `estimated` from texts, `subscription` (nothing is paid by
    /// use), or `unknown`.
    #[serde(default)]
    pub cost_basis: Option<String>,
    pub tool_calls: Option<i32>,
    /// Sigils of its agent that came to nothing: cut off, or said otherwise than they are read (SPEC 4).
    #[serde(default)]
    pub malformed_sigils: Option<i32>,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
}

/// A question of a session to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuestionView {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub asked: String,
    /// What can be answered by number, from 1; other words are an answer too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub asked_at: OffsetDateTime,
    /// Until when its session waits, while it does.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub waits_until: Option<OffsetDateTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The name of the token that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub answered_at: Option<OffsetDateTime>,
}

impl QuestionView {
    /// The question, with what became of it.
    pub fn of(shown: Shown) -> Self {
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

    /// Question and choices in one text.
    pub fn words(&self) -> String {
        Question {
            asked: self.asked.clone(),
            choices: self.choices.clone(),
        }
        .words()
    }
}

/// A session that runs now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionView {
    pub id: String,
    pub kind: SessionKind,
    pub task: String,
    /// The task's key, and the name of its feature.
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub feature_name: String,
    pub title: String,
    pub feature: String,
    pub attempt: i32,
    pub worker: String,
    pub model: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// By the database's clock.
    pub elapsed_ms: i64,
    /// What it asked, while it waits for a person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
}

/// Whose transcript it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TranscriptOf {
    /// The dispatch.
    pub dispatch: String,
    /// The task.
    pub task: String,
    /// What it does.
    pub kind: SessionKind,
    /// Number of the attempt.
    pub attempt: i32,
    /// Who works.
    pub worker: String,
    /// Whether it still runs.
    pub live: bool,
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
    let mut questions: HashMap<Uuid, Vec<QuestionView>> = HashMap::new();
    for shown in store::question::of_dispatches(conn, &ids).await? {
        questions
            .entry(shown.dispatch.0)
            .or_default()
            .push(QuestionView::of(shown));
    }
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
            strays: row
                .strays
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            files_changed: row.files_changed.unwrap_or_default(),
            test_changes: row
                .test_changes
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            gate_times: row
                .gate_times
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
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

/// The sessions that run now, longest first, at most `limit`; of one feature when it is given.
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

/// The dispatch to show of a task: the last one of `attempt` and `kind`, where they are given. Of an attempt alone it is the agent's work
/// rather than what followed it. Integrations have no agent and are left out.
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

/// The session that an attempt began with, or the last one that began one: what judged it since leaves no memory.
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

/// The task's first dispatch after another, or its first; integrations are left out.
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

/// Whose transcript a dispatch's is.
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

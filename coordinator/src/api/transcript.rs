//! Transcripts of sessions, complete or growing, and their prompts.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{TranscriptBatch, TranscriptEntry};
use serde::Deserialize;
use sqlx::PgConnection;

use super::body::{PromptSent, SectionTokens, SectionView, Transcript};
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{PathParams, QueryParams};
use crate::flow::maintenance::transcripts;
use crate::store;
use crate::store::dispatch::transcript::Holder;
use crate::store::view::{self, TranscriptOf};

/// Most bytes read from the beginning of a transcript in the stream, and from its end.
const HALF_BYTES: usize = 32 * 1024 * 1024;

/// Selects an attempt.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AttemptQuery {
    /// Number of the attempt; the last session when omitted.
    #[serde(default)]
    pub attempt: Option<i32>,
}

/// Selects a session.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SessionQuery {
    /// Number of the attempt; the last session when both this and `kind` are omitted.
    #[serde(default)]
    pub attempt: Option<i32>,
    /// Kind of the session; work when omitted with an `attempt`.
    #[serde(default)]
    pub kind: Option<SessionKind>,
}

/// The transcript of an attempt, or of the last session.
#[utoipa::path(
    get,
    path = "/tasks/{id}/transcript",
    operation_id = "show_transcript",
    tag = "tasks",
    params(SessionQuery),
    responses((status = 200, body = Transcript))
)]
pub async fn show(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<SessionQuery>,
) -> Result<Json<Transcript>, Problem> {
    let (of, dispatch) = find(&app, &id, &query).await?;
    let items = entries(&app, dispatch).await?;
    Ok(Json(Transcript { of, items }))
}

/// The prompt of an attempt, or of the last session.
#[utoipa::path(
    get,
    path = "/tasks/{id}/prompt",
    operation_id = "show_prompt",
    tag = "tasks",
    params(SessionQuery),
    responses((status = 200, body = PromptSent))
)]
pub async fn prompt(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<SessionQuery>,
) -> Result<Json<PromptSent>, Problem> {
    // Without a kind, the session that began the attempt; for a verifier's prompt, the client gives the kind.
    let (of, dispatch) = match query.kind {
        None => find_beginning(&app, &id, query.attempt).await?,
        Some(_) => find(&app, &id, &query).await?,
    };
    let mut conn = app.db().await?;
    let sent = store::dispatch::prompt::read(&mut conn, dispatch).await?;
    let (frame, body) =
        sent.ok_or_else(|| Problem::not_found(format!("the prompt of {} has been deleted", of.dispatch)))?;
    let sections = store::dispatch::prompt::sections(&mut conn, dispatch).await?;
    let (items, _) = view::uses(&mut conn, dispatch).await?;
    Ok(Json(PromptSent {
        of,
        tokens: SectionTokens::of(&frame, &body),
        frame,
        body,
        sections: sections.into_iter().map(SectionView::from).collect(),
        items,
    }))
}

pub(super) async fn find(
    app: &App,
    task: &str,
    query: &SessionQuery,
) -> Result<(TranscriptOf, DispatchId), Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, task).await?;
    let found = view::session_of_task(&mut conn, id, query.attempt, query.kind).await?;
    let dispatch = found.ok_or_else(|| no_such_session(id, query.attempt, query.kind))?;
    with_source(&mut conn, dispatch).await
}

/// The error for a session that does not exist, or not yet.
pub(super) fn no_such_session(task: TaskId, attempt: Option<i32>, kind: Option<SessionKind>) -> Problem {
    let what = match (attempt, kind) {
        (None, None) => return Problem::not_found(format!("no session of {task} has started yet")),
        (Some(n), None) => format!("attempt {n}"),
        (None, Some(kind)) => format!("session of the kind `{kind}`"),
        (Some(n), Some(kind)) => format!("session of the kind `{kind}` in attempt {n}"),
    };
    Problem::not_found(format!(
        "{task} has no {what}; `ralph task show {task}` lists its attempts"
    ))
}

/// The first session of `attempt`, or of the last attempt.
pub(super) async fn find_beginning(
    app: &App,
    task: &str,
    attempt: Option<i32>,
) -> Result<(TranscriptOf, DispatchId), Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, task).await?;
    let found = view::beginning_of_attempt(&mut conn, id, attempt).await?;
    let dispatch = found.ok_or_else(|| no_such_session(id, attempt, None))?;
    with_source(&mut conn, dispatch).await
}

async fn with_source(
    conn: &mut PgConnection,
    dispatch: DispatchId,
) -> Result<(TranscriptOf, DispatchId), Problem> {
    let of = view::of_dispatch(conn, dispatch).await?;
    of.map(|of| (of, dispatch))
        .ok_or_else(|| Problem::deleted("task"))
}

/// The known entries of a transcript.
pub async fn entries(app: &App, dispatch: DispatchId) -> Result<Vec<TranscriptEntry>, Problem> {
    Ok(transcripts::entries(&app.deps.bus, &app.deps.db, dispatch, HALF_BYTES).await?)
}

/// The entries of these messages, by number. Omits messages that are unreadable or not from the holder.
pub(super) fn numbered(bodies: Vec<Bytes>, holder: &Holder) -> BTreeMap<u64, TranscriptEntry> {
    bodies
        .iter()
        .filter_map(|body| serde_json::from_slice::<TranscriptBatch>(body).ok())
        .filter(|batch| holder.sent(batch))
        .flat_map(|batch| batch.entries)
        .map(|entry| (entry.seq, entry))
        .collect()
}

/// The entries in Postgres, by number.
pub(super) async fn stored_entries(
    app: &App,
    dispatch: DispatchId,
) -> Result<BTreeMap<u64, TranscriptEntry>, Problem> {
    Ok(transcripts::stored_entries(&mut *app.db().await?, dispatch).await?)
}

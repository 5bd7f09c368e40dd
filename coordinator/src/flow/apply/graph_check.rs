//! Checks a session's text before it is reported, and returns an unusable task graph to its agent once.
//! Stores nothing; only the report counts. Before a session starts, its worker's findings in the start commit
//! may also change its prompt.

use ralph_shared::at_length::by_length;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Verdict};
use ralph_shared::wire::{CheckRequest, RepoScan, Text, Work};
use sqlx::{PgConnection, PgPool};

use crate::flow::{Settings, assignment::context, claim::dispatches, memory::repo_scan, submit::agent_graph};
use crate::prompt;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};

/// The live dispatch of the request.
async fn current(conn: &mut PgConnection, request: &CheckRequest) -> sqlx::Result<Option<Dispatch>> {
    let named = store::dispatch::read(conn, &[request.dispatch.0]).await?.pop();
    Ok(named.filter(|d| d.state == DispatchState::Live && d.incarnation == request.incarnation))
}

/// Takes a worker's findings before its session starts. Returns a new prompt if these change it.
pub async fn renew(
    db: &PgPool,
    settings: &Settings,
    request: &CheckRequest,
    found: &RepoScan,
) -> sqlx::Result<Option<Text>> {
    let mut conn = db.acquire().await?;
    let Some(dispatch) = current(&mut conn, request).await? else {
        return Ok(None);
    };
    drop(conn);
    let surveyed = repo_scan::take(db, dispatch.feature, found).await?;
    if surveyed.files + surveyed.stale + surveyed.back == 0 {
        return Ok(None);
    }
    let (mut assignments, sent) = context::build(db, settings, &[dispatches::reopened(&dispatch)]).await?;
    let Some(Work::Session(order)) = assignments.remove(&dispatch.id).map(|assignment| assignment.work)
    else {
        return Ok(None);
    };
    let anew = match &order.prompt {
        Text::Inline(_) => None,
        Text::Parts { sha256, .. } => Some(sha256.as_str()),
    };
    // No agent ever sees the prompt that was sent with the claim.
    let mut tx = db.begin().await?;
    store::dispatch::prompt::forget(&mut tx, dispatch.id, anew).await?;
    tx.commit().await?;
    sent.keep(db).await?;
    Ok(Some(order.prompt))
}

/// The message for the agent, if it gets one more turn.
pub async fn check(
    db: &PgPool,
    settings: &Settings,
    request: &CheckRequest,
    text: &str,
) -> sqlx::Result<Option<String>> {
    // Rolled back at the end, since it only reads.
    let mut tx = db.begin().await?;
    let Some(dispatch) = current(&mut tx, request).await? else {
        return Ok(None);
    };
    let Some(task) = store::task::lock(&mut tx, &[dispatch.task.0]).await?.pop() else {
        return Ok(None);
    };
    let kind = dispatch.kind;
    let (short, tiers) = (task.id.short(), settings.tiers.names());
    let context = sigil::Context {
        kind,
        task_id: &short,
        model_tiers: &tiers,
    };
    let sigils = by_length(text.len(), || sigil::parse(text, &context));
    let verdict = sigils.verdict(kind);
    let problem = match (&sigils.task_graph, verdict) {
        (_, Verdict::Done | Verdict::Failed) => None,
        (Some(graph), Verdict::Split | Verdict::Graph | Verdict::ReviewChanges) => {
            agent_graph::problem(&mut tx, &settings.templates, &task, kind, graph).await?
        }
        (None, _) if kind == SessionKind::Build || text.contains("<task-graph") => {
            Some(prompt::unfinished(&settings.templates))
        }
        _ => None,
    };
    if let Some(problem) = &problem {
        tracing::info!(dispatch = %dispatch.id, task = %task.id, problem, "a task graph goes back to its agent");
    }
    Ok(problem.map(|problem| prompt::again(&settings.templates, &problem)))
}

//! What a session said is looked at before it is reported: a task graph that can't be used goes back to its agent once.
//! Nothing is stored; what counts is the report.

use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Verdict};
use ralph_shared::wire::CheckRequest;
use sqlx::PgPool;

use super::{Settings, submit};
use crate::prompt;
use crate::store;
use crate::store::dispatch::DispatchState;

/// What the agent is told, if it is to get one more turn.
pub async fn check(
    db: &PgPool,
    settings: &Settings,
    request: &CheckRequest,
    text: &str,
) -> sqlx::Result<Option<String>> {
    // Rolled back at the end: it only reads.
    let mut tx = db.begin().await?;
    let named = store::dispatch::read(&mut tx, &[request.dispatch.0]).await?.pop();
    let current = named.filter(|d| d.state == DispatchState::Live && d.incarnation == request.incarnation);
    let Some(dispatch) = current else {
        return Ok(None);
    };
    let Some(task) = store::task::lock(&mut tx, &[dispatch.task.0]).await?.pop() else {
        return Ok(None);
    };
    let kind = SessionKind::from(dispatch.kind);
    let (short, tiers) = (task.id.short(), settings.tiers.names());
    let context = sigil::Context {
        kind,
        task_id: &short,
        model_tiers: &tiers,
    };
    let sigils = sigil::parse(text, &context);
    let verdict = sigils.verdict(kind);
    let problem = match (&sigils.task_graph, verdict) {
        (_, Verdict::Done | Verdict::Failed) => None,
        (Some(graph), Verdict::Split | Verdict::Graph | Verdict::ReviewChanges) => {
            submit::problem(&mut tx, &task, kind, graph).await?
        }
        (None, _) if kind == SessionKind::Build || text.contains("<task-graph") => Some(
            "it has no whole `<task-graph>`: it begins with that tag, ends with `</task-graph>`, and has the tasks between"
                .to_owned(),
        ),
        _ => None,
    };
    if let Some(problem) = &problem {
        tracing::info!(dispatch = %dispatch.id, task = %task.id, problem, "a task graph goes back to its agent");
    }
    Ok(problem.map(|problem| prompt::again(&settings.templates, &problem)))
}

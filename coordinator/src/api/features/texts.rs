//! The long texts of a feature: show them, and write them as a person.

use axum::Json;
use axum::extract::State;
use ralph_shared::kind::SessionKind;

use crate::api::body::{Done, TextsView, WriteText};
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::api::tasks::command_result;
use crate::domain::steps;
use crate::flow::control::By;
use crate::flow::edit;
use crate::store;

/// The description, the specification, the plan and the proposed task graph of a feature.
#[utoipa::path(
    get,
    path = "/features/{id}/texts",
    operation_id = "show_texts",
    tag = "features",
    responses((status = 200, body = TextsView))
)]
pub async fn show(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<TextsView>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::feature(&mut conn, &id).await?;
    let texts = store::feature::texts(&mut conn, id).await?;
    let texts = texts.ok_or_else(|| Problem::deleted("feature"))?;
    Ok(Json(TextsView {
        description: texts.description,
        spec: texts.spec,
        plan: texts.plan,
        tasks: texts.proposed_graph,
    }))
}

/// Stores the specification or the plan, which completes the step that would have written it, or replaces the
/// task graph that waits for approval.
#[utoipa::path(
    put,
    path = "/features/{id}/texts/{which}",
    operation_id = "write_text",
    tag = "features",
    params(("which" = String, Path, description = "`spec`, `plan` or `tasks`", pattern = "^(spec|plan|tasks)$")), request_body = WriteText,
    responses((status = 200, body = Done))
)]
pub async fn store(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, which)): PathParams<(String, String)>,
    Body(body): Body<WriteText>,
) -> Result<Json<Done>, Problem> {
    let step = steps::of_result(&which).ok_or_else(|| {
        Problem::not_found(format!(
            "a feature has no text `{which}`; it has `spec`, `plan` and `tasks`"
        ))
    })?;
    if body.text.trim().is_empty() {
        return Err(Problem::invalid(format!(
            "the {which} is empty; nothing was stored"
        )));
    }
    let id = locate::feature(&mut *app.db().await?, &id).await?;
    let (db, before) = (&app.deps.db, body.before.as_deref());
    let result = if step == SessionKind::Build {
        store::retry_serialization(|| edit::graph(db, id, &body.text, before)).await?
    } else {
        let by = By {
            resumes: body.resume.unwrap_or(true),
            ..By::from(caller.name())
        };
        let stored = || edit::text(db, id, step, &body.text, before, by);
        store::retry_serialization(stored).await?
    };
    command_result(&app, result, "feature").await
}

//! A run of one task.

use axum::Json;
use axum::extract::State;

use crate::api::body::{RunOptions, Started};
use crate::api::features;
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::flow::control::FeatureCommand;
use crate::store;

/// Starts a run of one task and its subtasks only. Refuses a task whose blockers are not done.
#[utoipa::path(
    post,
    path = "/tasks/{id}/run",
    operation_id = "run_task",
    tag = "tasks",
    request_body = RunOptions,
    responses((status = 200, body = Started), (status = 409))
)]
pub async fn run(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(options): Body<RunOptions>,
) -> Result<Json<Started>, Problem> {
    let mut conn = app.db().await?;
    let task = locate::task(&mut conn, &id).await?;
    let feature = store::task::feature_of(&mut conn, task).await?;
    drop(conn);
    let feature = feature.ok_or_else(|| Problem::deleted("task"))?;
    let feature = feature.to_string();
    let settings = features::settings(&app, &feature, options).await?;
    features::run_command(
        &app,
        &feature,
        caller.by(new),
        FeatureCommand::RunTask(settings, task),
    )
    .await
}

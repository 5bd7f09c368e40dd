//! Adds and removes dependencies between tasks.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;

use crate::api::body::{AddDependencies, Done};
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::api::tasks::command_result;
use crate::flow::control::By;
use crate::flow::edit::dependencies::{self, Change};
use crate::store;

/// Most blockers per request.
const MOST: usize = 1_000;

/// Makes a task wait for others; adds all dependencies or none.
#[utoipa::path(
    post,
    path = "/tasks/{id}/deps",
    operation_id = "add_blockers",
    tag = "tasks",
    request_body = AddDependencies,
    responses((status = 200, body = Done))
)]
pub async fn add(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(body): Body<AddDependencies>,
) -> Result<Json<Done>, Problem> {
    if body.blockers.is_empty() || body.blockers.len() > MOST {
        return Err(Problem::refused(format!("name 1 to {MOST} blockers")));
    }
    change(&app, &id, &body.blockers, Change::Add, caller.by(new)).await
}

/// Makes a task no longer wait for another.
#[utoipa::path(
    delete,
    path = "/tasks/{id}/deps/{blocker}",
    operation_id = "remove_blocker",
    tag = "tasks",
    params(("blocker" = String, Path, description = "The task that it waits for: a prefix of its id, or `FEATURE/KEY`", pattern = "^(t-[0-9a-fA-F]{1,12}|[^/]+/[^/]+)$")),
    responses((status = 200, body = Done))
)]
pub async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, blocker)): PathParams<(String, String)>,
) -> Result<Json<Done>, Problem> {
    change(&app, &id, &[blocker], Change::Remove, caller.name().into()).await
}

async fn change(
    app: &App,
    id: &str,
    blockers: &[String],
    change: Change,
    by: By<'_>,
) -> Result<Json<Done>, Problem> {
    let mut conn = app.db().await?;
    let task = locate::task(&mut conn, id).await?;
    let mut others = BTreeSet::new();
    for blocker in blockers {
        others.insert(locate::task(&mut conn, blocker).await?);
    }
    drop(conn);
    let db = &app.deps.db;
    let changed = store::retry_serialization(|| dependencies::change(db, task, &others, change, by)).await?;
    command_result(app, changed, "task").await
}

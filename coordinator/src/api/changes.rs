//! Logs of changes and their actors.

use axum::Json;
use axum::extract::State;

use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::PathParams;
use crate::store;
use crate::store::view::{LogEntry, Page};

/// Most rows of a log; the newest ones.
const MAX_ROWS: i64 = 10_000;

/// Changes to a feature and its tasks, with actors and values: the newest 10,000, oldest first.
#[utoipa::path(
    get,
    path = "/features/{id}/log",
    operation_id = "show_feature_log",
    tag = "features",
    responses((status = 200, body = Page<LogEntry>))
)]
pub async fn of_feature(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Page<LogEntry>>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::feature(&mut conn, &id).await?;
    let log = store::changes::list(&mut conn, Some(id), MAX_ROWS).await?;
    Ok(Json(Page::whole(log)))
}

/// Changes through the API in the last 400 days to features, tasks, tokens, the memory, budgets, schedules,
/// hooks and workers, with actors and values: the newest 10,000, oldest first.
#[utoipa::path(
    get,
    path = "/changes",
    operation_id = "list_changes",
    tag = "runs",
    responses((status = 200, body = Page<LogEntry>))
)]
pub async fn all(State(app): State<App>) -> Result<Json<Page<LogEntry>>, Problem> {
    let log = store::changes::list(&mut *app.db().await?, None, MAX_ROWS).await?;
    Ok(Json(Page::whole(log)))
}

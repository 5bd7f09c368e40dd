//! The whole system, its workers, and its runs.

use axum::Json;
use axum::extract::State;
use ralph_shared::wire::Control;
use serde::Deserialize;

use super::body::Done;
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{PageQuery, PathParams, QueryParams};
use crate::bus::Signals;
use crate::config::Setting;
use crate::domain::graph::nearest;
use crate::store;
use crate::store::view::{self, Page, RunView, SystemView, WorkerView};

/// Overview of the system.
#[utoipa::path(
    get,
    path = "/status",
    operation_id = "show_status",
    tag = "health",
    responses((status = 200, body = SystemView))
)]
pub async fn status(State(app): State<App>) -> Result<Json<SystemView>, Problem> {
    let lease_ms = app.deps.settings.lease_ms();
    Ok(Json(view::system(&mut *app.db().await?, lease_ms).await?))
}

/// All workers.
#[utoipa::path(
    get,
    path = "/workers",
    operation_id = "list_workers",
    tag = "workers",
    responses((status = 200, body = Page<WorkerView>))
)]
pub async fn workers(State(app): State<App>) -> Result<Json<Page<WorkerView>>, Problem> {
    let lease_ms = app.deps.settings.lease_ms();
    let workers = view::workers(&mut *app.db().await?, lease_ms).await?;
    Ok(Json(Page::whole(workers)))
}

/// One worker.
#[utoipa::path(
    get,
    path = "/workers/{name}",
    operation_id = "show_worker",
    tag = "workers",
    responses((status = 200, body = WorkerView))
)]
pub async fn worker(
    State(app): State<App>,
    PathParams(name): PathParams<String>,
) -> Result<Json<WorkerView>, Problem> {
    let lease_ms = app.deps.settings.lease_ms();
    let mut workers = view::workers(&mut *app.db().await?, lease_ms).await?;
    match workers.iter().position(|worker| worker.name == name) {
        Some(at) => Ok(Json(workers.swap_remove(at))),
        None => Err(no_worker(&name, &workers)),
    }
}

/// Asks a worker to finish its sessions and take no new work.
#[utoipa::path(
    post,
    path = "/workers/{name}/drain",
    operation_id = "drain_worker",
    tag = "workers",
    responses((status = 200, body = Done))
)]
pub async fn drain(
    State(app): State<App>,
    PathParams(name): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    if !store::worker::request_drain(&mut *app.db().await?, &name).await? {
        let lease_ms = app.deps.settings.lease_ms();
        let workers = view::workers(&mut *app.db().await?, lease_ms).await?;
        return Err(no_worker(&name, &workers));
    }
    let mut signals = Signals::default();
    signals.order(&name, Control::Drain);
    app.deps.bus.emit(signals).await;
    Ok(Json(Done::of(1)))
}

/// Forgets a worker that is away and holds no session. The worker may register again.
#[utoipa::path(
    delete,
    path = "/workers/{name}",
    operation_id = "forget_worker",
    tag = "workers",
    responses((status = 200, body = Done), (status = 409))
)]
pub async fn forget(
    State(app): State<App>,
    PathParams(name): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    let lease_ms = app.deps.settings.lease_ms();
    let mut conn = app.db().await?;
    if store::worker::forget(&mut conn, &name, lease_ms).await? {
        return Ok(Json(Done { count: 1, run: None }));
    }
    let workers = view::workers(&mut conn, lease_ms).await?;
    Err(match workers.iter().any(|worker| worker.name == name) {
        true => Problem::conflict(format!(
            "{name} sent a heartbeat a moment ago, or holds a session: stop it, and forget it once `worker list` shows it as away"
        )),
        false => no_worker(&name, &workers),
    })
}

/// The effective configuration of this coordinator with the source of each value; secrets are hidden.
#[utoipa::path(
    get,
    path = "/config",
    operation_id = "show_config",
    tag = "health",
    responses((status = 200, body = Page<Setting>))
)]
pub async fn config(State(app): State<App>) -> Json<Page<Setting>> {
    Json(Page::whole(app.deps.settings.in_force.to_vec()))
}

fn no_worker(name: &str, workers: &[WorkerView]) -> Problem {
    let near = nearest(name, workers.iter().map(|worker| worker.name.as_str()));
    locate::unknown("worker", name, near)
}

/// Filter of a list of runs.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only this feature's runs: its name, or a prefix of its id.
    #[serde(default)]
    feature: Option<String>,
}

/// Runs, newest first.
#[utoipa::path(
    get,
    path = "/runs",
    operation_id = "list_runs",
    tag = "runs",
    params(RunsQuery, PageQuery),
    responses((status = 200, body = Page<RunView>), (status = 404), (status = 409))
)]
pub async fn runs(
    State(app): State<App>,
    QueryParams(query): QueryParams<RunsQuery>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<RunView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let mut conn = app.db().await?;
    let feature = match &query.feature {
        Some(text) => Some(locate::feature(&mut conn, text).await?),
        None => None,
    };
    Ok(Json(view::runs_page(&mut conn, feature, cursor, limit).await?))
}

/// One run.
#[utoipa::path(
    get,
    path = "/runs/{id}",
    operation_id = "show_run",
    tag = "runs",
    responses((status = 200, body = RunView))
)]
pub async fn run(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<RunView>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::run(&mut conn, &id).await?;
    let run = view::runs(&mut conn, &[id.0]).await?.pop();
    run.map(Json)
        .ok_or_else(|| Problem::not_found("the run is gone; its feature was deleted meanwhile"))
}

//! `/healthz` shows that the process lives, `/readyz` that it can work (DESIGN 8). Neither needs a token, and
//! neither returns anything else. The API serves both. A separate listener serves them too: it answers from
//! the start, even while the API is busy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::connection::State as Connection;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::http::accept::serve_connections;
use crate::api::http::app::App;
use crate::api::http::connections::ConnectionLimits;
use crate::api::http::problem::Problem;
use crate::services::Deps;
use crate::store;

/// Time limit of the database's answer.
const DATABASE_WITHIN: Duration = Duration::from_secs(2);
/// Most connections of the separate listener.
const CONNECTIONS: usize = 128;
/// Time limit for the head of a request to the separate listener.
const HEAD: Duration = Duration::from_secs(2);

/// Health of a coordinator.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct HealthView {
    /// `ok` or `ready`.
    status: &'static str,
}

/// Startup state of a coordinator.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<Stage>>);

#[derive(Debug, Clone)]
enum Stage {
    /// The coordinator waits for this.
    Starting(String),
    Serving(Box<Deps>),
}

impl Default for Health {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Stage::Starting("its start".to_owned()))))
    }
}

impl Health {
    pub fn waits_for(&self, what: &str) {
        self.set(Stage::Starting(what.to_owned()));
    }

    pub fn serves(&self, deps: Deps) {
        self.set(Stage::Serving(Box::new(deps)));
    }

    fn set(&self, stage: Stage) {
        *self.0.lock() = stage;
    }

    fn stage(&self) -> Stage {
        self.0.lock().clone()
    }
}

/// Serves only `/healthz` and `/readyz`, until `shutdown`.
pub async fn serve_health(health: Health, listener: TcpListener, shutdown: CancellationToken) {
    let stopping = shutdown.clone();
    let ready = move || async move {
        match health.stage() {
            Stage::Starting(what) => Err(Problem::unavailable(format!("it waits for {what}"))),
            Stage::Serving(deps) => readiness(&deps, &stopping).await,
        }
    };
    let router = Router::new()
        .route("/healthz", get(live))
        .route("/readyz", get(ready));
    serve_connections(
        router,
        listener,
        &ConnectionLimits::new(CONNECTIONS),
        HEAD,
        shutdown,
    )
    .await;
}

/// Whether the process lives.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "live",
    tag = "health",
    responses((status = 200, body = HealthView))
)]
pub async fn live() -> Json<HealthView> {
    Json(HealthView { status: "ok" })
}

/// Whether the database and the broker answer and the essential loops make progress.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "ready",
    tag = "health",
    responses((status = 200, body = HealthView), (status = 503))
)]
pub async fn ready(State(app): State<App>) -> Result<Json<HealthView>, Problem> {
    readiness(&app.deps, &app.shutdown).await
}

async fn readiness(deps: &Deps, stopping: &CancellationToken) -> Result<Json<HealthView>, Problem> {
    if stopping.is_cancelled() {
        return Err(Problem::unavailable("this coordinator is being stopped"));
    }
    match tokio::time::timeout(DATABASE_WITHIN, store::ping(&deps.reserved.first)).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return Err(Problem::unavailable("the database does not answer")),
    }
    if deps.bus.client.connection_state() != Connection::Connected {
        return Err(Problem::unavailable("the broker is not connected"));
    }
    if let Some((name, since)) = deps.pulse.longest_stuck(Instant::now()) {
        let seconds = since.as_secs();
        return Err(Problem::unavailable(format!(
            "its loop `{name}` has done nothing for {seconds} s: see its log, and what holds locks in the database"
        )));
    }
    Ok(Json(HealthView { status: "ready" }))
}

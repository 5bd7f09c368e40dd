//! `/healthz` lives, `/readyz` can do its work (DESIGN 8). Neither wants a token, and neither tells more than that.

use std::time::{Duration, Instant};

use async_nats::connection::State as Connection;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::app::App;
use super::problem::Problem;
use crate::store;

/// How long the database may take.
const DATABASE_WITHIN: Duration = Duration::from_secs(2);

/// A coordinator that answers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Health {
    /// `ok` or `ready`.
    status: &'static str,
}

/// The process answers.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "live",
    tag = "health",
    responses((status = 200, body = Health))
)]
pub async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Database and broker answer, and the loops move that everything waits for.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "ready",
    tag = "health",
    responses((status = 200, body = Health), (status = 503))
)]
pub async fn ready(State(app): State<App>) -> Result<Json<Health>, Problem> {
    if app.shutdown.is_cancelled() {
        return Err(Problem::unavailable("this coordinator is being stopped"));
    }
    match tokio::time::timeout(DATABASE_WITHIN, store::ping(&app.deps.db)).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return Err(Problem::unavailable("the database does not answer")),
    }
    if app.deps.bus.client.connection_state() != Connection::Connected {
        return Err(Problem::unavailable("the broker is not connected"));
    }
    if let Some((name, since)) = app.deps.pulse.standing(Instant::now()) {
        let seconds = since.as_secs();
        return Err(Problem::unavailable(format!(
            "its loop `{name}` has done nothing for {seconds} s: see its log, and what holds locks in the database"
        )));
    }
    Ok(Json(Health { status: "ready" }))
}

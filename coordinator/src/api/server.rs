//! Routes, limits, and the server itself.

use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, patch, post, put};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::trace::TraceLayer;

use super::app::App;
use super::feed::Feeds;
use super::problem::Problem;
use super::request::MAX_BODY_BYTES;
use super::{
    access, features, follow, health, memory, metrics, submit, system, tasks, texts, tokens, transcript,
};
use crate::services::Deps;

/// Requests under way may take this long once the server is told to stop; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// Answers requests on `listener` until `shutdown`.
///
/// # Errors
/// When the socket fails.
pub async fn serve(deps: Deps, listener: TcpListener, shutdown: CancellationToken) -> anyhow::Result<()> {
    let app = App {
        deps,
        feeds: Feeds::default(),
        shutdown: shutdown.clone(),
    };
    let stop = shutdown.clone();
    let server =
        axum::serve(listener, router(app)).with_graceful_shutdown(async move { stop.cancelled().await });
    let late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = server => served.context("the HTTP server failed"),
        () = late => {
            tracing::warn!("requests did not end in time; cut off");
            Ok(())
        }
    }
}

fn router(app: App) -> Router {
    let reads = Router::new()
        .route("/status", get(system::status))
        .route("/workers", get(system::workers))
        .route("/workers/{name}", get(system::worker))
        .route("/runs", get(system::runs))
        .route("/runs/{id}", get(system::run))
        .route("/features", get(features::list))
        .route("/features/{id}", get(features::show))
        .route("/features/{id}/progress", get(features::progress))
        .route("/features/{id}/texts", get(texts::show))
        .route("/features/{id}/tasks", get(features::tasks))
        .route("/features/{id}/events", get(features::events))
        .route("/tasks", get(tasks::list))
        .route("/tasks/{id}", get(tasks::show))
        .route("/tasks/{id}/tree", get(tasks::tree))
        .route("/tasks/{id}/log", get(tasks::log))
        .route("/tasks/{id}/prompt", get(transcript::prompt))
        .route("/tasks/{id}/transcript", get(transcript::show))
        .route("/tasks/{id}/transcript/events", get(follow::events))
        .route("/tasks/{id}/memory", get(memory::explain))
        .route("/tasks/{id}/preview", get(memory::preview))
        .route("/memory", get(memory::list))
        .route("/memory/report", get(memory::report))
        .route("/memory/search", post(memory::search))
        .route("/memory/{id}", get(memory::show))
        .route_layer(from_fn_with_state(app.clone(), access::may_read));
    let submits = Router::new()
        .route("/features", post(submit::feature))
        .route("/features/{id}/run", post(features::run))
        .route("/features/{id}/texts/{which}", put(texts::store))
        .route("/features/{id}/pause", post(features::pause))
        .route("/features/{id}/resume", post(features::resume))
        .route("/features/{id}/cancel", post(features::cancel))
        .route("/tasks", post(submit::task))
        .route("/tasks/{id}", patch(tasks::edit))
        .route("/tasks/{id}/{command}", post(tasks::command))
        .route("/memory", post(memory::add))
        .route("/memory/import", post(memory::import))
        .route("/memory/prune", post(memory::prune))
        .route("/memory/{id}/edit", post(memory::edit))
        .route("/tasks/{id}/memory/revoke", post(memory::revoke))
        .route_layer(from_fn_with_state(app.clone(), access::may_submit));
    let administers = Router::new()
        .route("/workers/{name}/drain", post(system::drain))
        .route("/features/{id}", delete(features::remove))
        .route("/memory/purge", post(memory::purge))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{name}", delete(tokens::revoke))
        .route_layer(from_fn_with_state(app.clone(), access::may_administer));
    let figures = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route_layer(from_fn_with_state(app.clone(), access::may_read));
    Router::new()
        .merge(figures)
        .nest("/api/v1", reads.merge(submits).merge(administers))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(|| async { Problem::not_found("nothing is at this address; the API begins with /api/v1/") })
        .method_not_allowed_fallback(|| async { Problem::no_such_method() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TraceLayer::new_for_http())
        .with_state(app)
}

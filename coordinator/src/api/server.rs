//! The server itself, and the limits that hold for all routes.

use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::trace::TraceLayer;

use super::access::Standings;
use super::app::App;
use super::feed::Feeds;
use super::problem::Problem;
use super::rate::Rates;
use super::request::MAX_BODY_BYTES;
use super::routes;
use crate::services::Deps;

/// Requests under way may take this long once the server is told to stop; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// Answers requests on `listener` until `shutdown`.
///
/// # Errors
/// When the socket fails.
pub async fn serve(deps: Deps, listener: TcpListener, shutdown: CancellationToken) -> anyhow::Result<()> {
    let app = App {
        rates: Rates::new(deps.settings.requests_per_second),
        deps,
        feeds: Feeds::default(),
        standings: Standings::default(),
        shutdown: shutdown.clone(),
    };
    let stop = shutdown.clone();
    // Given as it is, a router would be made anew for each connection, all its routes with it: 350 KB.
    let router = router(app).into_make_service();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
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
    routes::all(&app)
        .fallback(|| async {
            Problem::not_found("nothing is at this address; /api/docs lists what there is")
        })
        .method_not_allowed_fallback(|| async { Problem::no_such_method() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TraceLayer::new_for_http())
        .with_state(app)
}

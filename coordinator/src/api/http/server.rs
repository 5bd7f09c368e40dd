//! The HTTP server, and limits for all routes.

use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::trace::TraceLayer;

use super::app::App;
use super::problem::Problem;
use super::rate::Rates;
use super::request::{BodyWithin, MAX_BODY_BYTES};
use crate::api::feed::Feeds;
use crate::api::http::accept::serve_connections;
use crate::api::http::connections::{ConnectionLimits, make_room};
use crate::api::http::token_cache::TokenCache;
use crate::api::metrics::cached::Counted;
use crate::api::news::News;
use crate::api::routes;
use crate::page;
use crate::services::Deps;

/// Time limits for data from a client, so that a client that stalls or disappears holds no descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The head of a request, including later requests of a connection.
    pub head: Duration,
    /// A request's body.
    pub body: Duration,
}

/// The default limits: a graph of 100,000 tasks arrives within a minute over 10 Mbit/s.
const BOUNDS: Bounds = Bounds {
    head: Duration::from_secs(10),
    body: Duration::from_secs(60),
};

/// Answers requests on `listener` until `shutdown`.
pub async fn serve(deps: Deps, listener: TcpListener, shutdown: CancellationToken) {
    serve_within(deps, listener, shutdown, BOUNDS).await;
}

/// Like [`serve`], with other time limits.
pub async fn serve_within(deps: Deps, listener: TcpListener, shutdown: CancellationToken, bounds: Bounds) {
    let slots = ConnectionLimits::new(deps.settings.api_connections);
    let app = App {
        slots: slots.clone(),
        rates: Rates::new(deps.settings.requests_per_second),
        deps,
        feeds: Feeds::default(),
        news: News::default(),
        token_cache: TokenCache::default(),
        counted: Counted::default(),
        shutdown: shutdown.clone(),
    };
    let router = router(app).layer(Extension(BodyWithin(bounds.body)));
    serve_connections(router, listener, &slots, bounds.head, shutdown).await;
}

fn router(app: App) -> Router {
    let api = routes::all(&app)
        .fallback(|| async {
            Problem::not_found("there is nothing at this address; /api/docs lists all addresses")
        })
        .method_not_allowed_fallback(|| async { Problem::no_such_method() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app.clone());
    page::routes(app.clone(), api.clone())
        .merge(api)
        .layer(from_fn_with_state(app, make_room))
        .layer(TraceLayer::new_for_http())
}

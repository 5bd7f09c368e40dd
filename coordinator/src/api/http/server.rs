//! The HTTP server, and limits for all routes.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::trace::TraceLayer;

use super::app::App;
use super::problem::Problem;
use super::rate::Rates;
use super::request::{BodyWithin, MAX_BODY_BYTES};
use crate::api::feed::Feeds;
use crate::api::http::connections::{ConnectionLimits, make_room};
use crate::api::http::slow_requests::Unheard;
use crate::api::http::standings::Standings;
use crate::api::metrics::cached::Counted;
use crate::api::routes;
use crate::services::Deps;

/// How long running requests may take after a shutdown begins; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// Time limits for data from a client: one that sends half of a request, or is silently gone, keeps no
/// descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The head of a request, also of the next one on an open connection.
    pub head: Duration,
    /// A request's body.
    pub body: Duration,
}

/// A graph of 100,000 tasks arrives within a minute over 10 Mbit/s.
const BOUNDS: Bounds = Bounds {
    head: Duration::from_secs(10),
    body: Duration::from_secs(60),
};
/// How long a connection may be silent while others wait for its slot.
const SILENCE: Duration = Duration::from_millis(500);
/// Pause after the system refused a connection for lack of a resource.
const WANT: Duration = Duration::from_secs(1);
/// Shortest time between two log lines about waiting connections.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Answers requests on `listener` until `shutdown`.
pub async fn serve(deps: Deps, listener: TcpListener, shutdown: CancellationToken) {
    serve_within(deps, listener, shutdown, BOUNDS).await;
}

/// The same within other times.
pub async fn serve_within(deps: Deps, listener: TcpListener, shutdown: CancellationToken, bounds: Bounds) {
    let places = ConnectionLimits::new(deps.settings.api_connections);
    let app = App {
        places: places.clone(),
        rates: Rates::new(deps.settings.requests_per_second),
        deps,
        feeds: Feeds::default(),
        standings: Standings::default(),
        counted: Counted::default(),
        shutdown: shutdown.clone(),
    };
    let router = router(app).layer(Extension(BodyWithin(bounds.body)));
    answer(router, listener, &places, bounds.head, shutdown).await;
}

/// Serves `router`, over as many connections as there are slots.
pub(in crate::api) async fn answer(
    router: Router,
    listener: TcpListener,
    places: &ConnectionLimits,
    head: Duration,
    shutdown: CancellationToken,
) {
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let connections = GracefulShutdown::new();
    let unheard = Unheard::default();
    let mut said: Option<Instant> = None;
    loop {
        if places.are_taken() && said.is_none_or(|at| at.elapsed() > SAY_AGAIN) {
            tracing::warn!("as many connections as `[api] max_connections` allows; further ones wait");
            said = Some(Instant::now());
        }
        // A connection without a slot stays in the system's queue.
        let next = async {
            while tokio::time::timeout(SILENCE, places.free()).await.is_err() {
                unheard.close_older(SILENCE);
            }
            listener.accept().await
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = places.connection();
                let silent = unheard.opened(peer.ip());
                let closed = silent.closed();
                let service = service.clone();
                let heard = service_fn(move |request| {
                    silent.heard();
                    service.call(request)
                });
                let connection = http.serve_connection(TokioIo::new(stream), heard);
                let connection = connections.watch(connection);
                tokio::spawn(async move {
                    tokio::select! {
                        ended = connection => {
                            if let Err(error) = ended {
                                tracing::debug!(%error, "a connection broke off");
                            }
                        }
                        () = closed.cancelled() => {}
                    }
                    drop(place);
                });
            }
            Err(error) if is_the_callers(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken; trying again");
                tokio::time::sleep(WANT).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, connections.shutdown()).await.is_err() {
        tracing::warn!("requests did not end in time; cut off");
    }
}

/// Whether the client ended a connection before it was accepted.
fn is_the_callers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

fn router(app: App) -> Router {
    routes::all(&app)
        // Not an operation: the address that `up` prints leads to the page.
        .route("/", get(|| async { Redirect::temporary("/api/docs") }))
        .fallback(|| async {
            Problem::not_found("nothing is at this address; /api/docs lists what there is")
        })
        .method_not_allowed_fallback(|| async { Problem::no_such_method() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(app.clone(), make_room))
        .layer(TraceLayer::new_for_http())
        .with_state(app)
}

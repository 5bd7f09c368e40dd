//! The server itself, and the limits that hold for all routes.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::trace::TraceLayer;

use super::access::Standings;
use super::app::App;
use super::feed::Feeds;
use super::metrics::Counted;
use super::places::{Places, make_room};
use super::problem::Problem;
use super::rate::Rates;
use super::request::MAX_BODY_BYTES;
use super::routes;
use crate::services::Deps;

/// Requests under way may take this long once the server is told to stop; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// A request's head has to come within this time, and on a connection that stays open the next one: who sends half of one, or is gone
/// without a word, keeps no descriptor.
const HEAD: Duration = Duration::from_secs(60);
/// Pause after the system refused a connection for want of something.
const WANT: Duration = Duration::from_secs(1);
/// Shortest time between two words in the log that connections wait.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Answers requests on `listener` until `shutdown`.
pub async fn serve(deps: Deps, listener: TcpListener, shutdown: CancellationToken) {
    serve_patiently(deps, listener, shutdown, HEAD).await;
}

/// The same with another time for a request's head.
pub async fn serve_patiently(deps: Deps, listener: TcpListener, shutdown: CancellationToken, head: Duration) {
    let places = Places::new(deps.settings.api_connections);
    let app = App {
        places: places.clone(),
        rates: Rates::new(deps.settings.requests_per_second),
        deps,
        feeds: Feeds::default(),
        standings: Standings::default(),
        counted: Counted::default(),
        shutdown: shutdown.clone(),
    };
    let service = TowerToHyperService::new(router(app));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let connections = GracefulShutdown::new();
    let mut said: Option<Instant> = None;
    loop {
        if places.are_taken() && said.is_none_or(|at| at.elapsed() > SAY_AGAIN) {
            tracing::warn!("as many connections as `[api] max_connections` allows; further ones wait");
            said = Some(Instant::now());
        }
        // A connection for which there is no place stays in the system's queue.
        let next = async {
            places.free().await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let place = places.connection();
                let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                let connection = connections.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection broke off");
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

/// Whether it is the caller who ended a connection before it was taken.
fn is_the_callers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

fn router(app: App) -> Router {
    routes::all(&app)
        // No operation: whoever opens the address that `up` tells is led to the page.
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

//! Accepts connections and serves them, within their limits.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::api::http::connections::ConnectionLimits;
use crate::api::http::slow_requests::Unheard;

/// How long a connection may be silent while others wait for its slot.
const SILENCE: Duration = Duration::from_millis(500);
/// Pause after the system refused a connection for lack of a resource.
const WANT: Duration = Duration::from_secs(1);
/// Shortest time between two log lines about waiting connections.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// How long running requests may take after a shutdown begins; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// The local address of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Local(pub SocketAddr);

/// Serves `router`, over as many connections as there are slots.
pub(in crate::api) async fn serve_connections(
    router: Router,
    listener: TcpListener,
    places: &ConnectionLimits,
    head: Duration,
    shutdown: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let connections = Connections {
        service: TowerToHyperService::new(router),
        http,
        open: GracefulShutdown::new(),
        unheard: Unheard::default(),
    };
    let mut said: Option<Instant> = None;
    loop {
        if places.is_full() && said.is_none_or(|at| at.elapsed() > SAY_AGAIN) {
            tracing::warn!("as many connections as `[api] max_connections` allows; further ones wait");
            said = Some(Instant::now());
        }
        // A connection without a slot stays in the system's queue.
        let next = async {
            while tokio::time::timeout(SILENCE, places.free()).await.is_err() {
                connections.unheard.close_older(SILENCE);
            }
            listener.accept().await
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, peer)) => connections.serve(stream, peer, places.connection()),
            Err(error) if is_the_callers(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken; trying again");
                tokio::time::sleep(WANT).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, connections.open.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("requests did not end in time; cut off");
    }
}

struct Connections {
    service: TowerToHyperService<Router>,
    http: http1::Builder,
    open: GracefulShutdown,
    unheard: Unheard,
}

impl Connections {
    /// Serves a connection, which gives its slot back at its end.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: Option<OwnedSemaphorePermit>) {
        let silent = self.unheard.opened(peer.ip());
        let closed = silent.closed();
        let service = self.service.clone();
        let local = stream.local_addr().map(Local);
        let heard = service_fn(move |mut request: hyper::Request<Incoming>| {
            silent.heard();
            if let Ok(local) = local {
                request.extensions_mut().insert(local);
            }
            service.call(request)
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), heard);
        let connection = self.open.watch(connection);
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
}

/// Whether the client ended a connection before it was accepted.
fn is_the_callers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

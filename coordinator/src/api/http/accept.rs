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
use crate::api::http::slow_requests::SlowRequests;

/// Longest silence of a connection while others wait for its slot.
const SILENCE: Duration = Duration::from_millis(500);
/// Pause after the system could not accept a connection for lack of a resource.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Shortest time between two log lines about waiting connections.
const WARN_AGAIN: Duration = Duration::from_secs(60);
/// Time limit of running requests after a shutdown begins; streams end at once.
const DRAIN: Duration = Duration::from_secs(5);

/// The local address of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Local(pub SocketAddr);

/// Serves `router` over at most as many connections as there are slots.
pub(in crate::api) async fn serve_connections(
    router: Router,
    listener: TcpListener,
    slots: &ConnectionLimits,
    head: Duration,
    shutdown: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let connections = Connections {
        service: TowerToHyperService::new(router),
        http,
        open: GracefulShutdown::new(),
        slow: SlowRequests::default(),
    };
    let mut warned: Option<Instant> = None;
    loop {
        if slots.is_full() && warned.is_none_or(|at| at.elapsed() > WARN_AGAIN) {
            tracing::warn!("`[api] max_connections` is reached; further connections wait");
            warned = Some(Instant::now());
        }
        // A connection without a slot stays in the system's queue.
        let next = async {
            while tokio::time::timeout(SILENCE, slots.free()).await.is_err() {
                connections.slow.close_older(SILENCE);
            }
            listener.accept().await
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, peer)) => connections.serve(stream, peer, slots.connection()),
            Err(error) if is_from_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
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
    slow: SlowRequests,
}

impl Connections {
    /// Serves a connection in a task of its own; the connection frees its slot at its end.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, slot: Option<OwnedSemaphorePermit>) {
        let slow = self.slow.opened(peer.ip());
        let closed = slow.closed();
        let service = self.service.clone();
        let local = stream.local_addr().map(Local);
        let handler = service_fn(move |mut request: hyper::Request<Incoming>| {
            slow.arrived();
            if let Ok(local) = local {
                request.extensions_mut().insert(local);
            }
            service.call(request)
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), handler);
        let connection = self.open.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection failed");
                    }
                }
                () = closed.cancelled() => {}
            }
            drop(slot);
        });
    }
}

/// Whether the client ended a connection before it was accepted.
fn is_from_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

//! The orderly stop: workers first, then the coordinator, then the servers.

use futures::future::join_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::children::Child;
use super::servers::Servers;

/// SIGTERM and Ctrl+C.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes them over.
    ///
    /// # Errors
    /// When the system doesn't let us.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Comes with the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Everything that runs.
#[derive(Debug, Default)]
pub struct Running {
    /// Postgres and NATS.
    pub servers: Option<Servers>,
    /// The coordinator.
    pub coordinator: Option<Child>,
    /// The workers.
    pub workers: Vec<Child>,
}

impl Running {
    /// Stops all of it; every step is bounded. A signal meanwhile kills what is left: nothing that was accepted is lost by it.
    pub async fn stop(mut self, signals: &mut Signals) {
        let workers = std::mem::take(&mut self.workers);
        let (coordinator, servers) = (self.coordinator.take(), self.servers.take());
        let orderly = async {
            if !workers.is_empty() {
                eprintln!(
                    "stopping {} workers: what runs may end, then it is ended and kept (Ctrl+C kills)",
                    workers.len()
                );
                join_all(workers.into_iter().map(|worker| worker.supervised.stop())).await;
            }
            if let Some(coordinator) = coordinator {
                coordinator.supervised.stop().await;
            }
            if let Some(servers) = servers {
                servers.stop().await;
            }
        };
        tokio::select! {
            () = orderly => eprintln!("stopped"),
            // Dropping a child kills its group.
            () = signals.next() => eprintln!("killed; the next `up` goes on from here"),
        }
    }
}

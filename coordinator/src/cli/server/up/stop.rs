//! The orderly stop: workers first, then the coordinator, then the servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::children::Child;
use super::servers::Servers;
use super::steps::tell;

/// Signals that come within this time are one: a terminal that closes, a shell and a script may each send their own.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// SIGTERM, Ctrl+C and the terminal's end, unless that is ignored (`nohup`).
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
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
            hangup: (!ignores_hangup())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// Comes with the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = async {
                match &mut self.hangup {
                    Some(hangup) => drop(hangup.recv().await),
                    None => std::future::pending().await,
                }
            } => {}
        }
    }
}

/// Whether whoever started us wants us to outlive the terminal. The system tells it in `/proc`, where there is one.
fn ignores_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignored(&status, 1))
}

/// Whether a process with this status ignores the signal of this number.
fn ignored(status: &str, signal: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Everything that runs.
#[derive(Debug, Default)]
pub struct Running {
    /// Postgres and NATS.
    pub servers: Option<Servers>,
    pub coordinator: Option<Child>,
    pub workers: Vec<Child>,
}

impl Running {
    /// Stops all of it; every step is bounded. A signal meanwhile gives everything only the time to end what it has started, a further
    /// one kills what is left: nothing that was accepted is lost by it.
    pub async fn stop(mut self, signals: &mut Signals) {
        let began = Instant::now();
        let workers = std::mem::take(&mut self.workers);
        let (coordinator, servers) = (self.coordinator.take(), self.servers.take());
        let children = workers.iter().chain(&coordinator);
        let mut hurry: Vec<_> = children.map(|child| child.supervised.hurry()).collect();
        hurry.extend(servers.iter().flat_map(Servers::hurry));
        let orderly = async {
            if !workers.is_empty() {
                tell(&format!(
                    "stopping {} workers: what runs may end, then it is ended and kept (Ctrl+C ends it at once)",
                    workers.len()
                ));
                join_all(workers.into_iter().map(|worker| worker.supervised.stop())).await;
            }
            if let Some(coordinator) = coordinator {
                coordinator.supervised.stop().await;
            }
            if let Some(servers) = servers {
                servers.stop().await;
            }
        };
        let mut orderly = std::pin::pin!(orderly);
        let mut hurried = false;
        loop {
            tokio::select! {
                () = &mut orderly => return tell("stopped"),
                () = signals.next() => {}
            }
            if began.elapsed() < ONE_SIGNAL {
                continue;
            }
            if hurried {
                // Dropping a child kills its group.
                return tell("killed; the next `up` goes on from here");
            }
            tell("ending what runs at once; the next `up` goes on from here");
            hurried = true;
            for child in &hurry {
                child.cancel();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_which_signals_are_ignored() {
        let status =
            "Name:\tralph\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!(
            [1, 2, 13, 64].map(|signal| ignored(status, signal)),
            [true, false, true, false]
        );
        assert!(!ignored("", 1));
    }
}

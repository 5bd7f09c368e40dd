//! The orderly stop: workers first, then the coordinator, then the servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::children::Child;
use super::servers::Servers;
use super::steps::report;

/// Signals within this time count as one: a closing terminal, a shell and a script may each send their own.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// SIGTERM, SIGINT and SIGHUP. Leaves SIGHUP alone if it is ignored (`nohup`).
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: (!ignores_hangup())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

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

/// Whether our parent made us ignore SIGHUP. Linux shows that in `/proc`.
fn ignores_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignored(&status, 1))
}

/// Whether a process with this status ignores signal number `signal`.
fn ignored(status: &str, signal: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[derive(Debug, Default)]
pub struct Running {
    pub servers: Option<Servers>,
    pub coordinator: Option<Child>,
    pub workers: Vec<Child>,
}

impl Running {
    /// Stops everything; every step has a time limit. A signal meanwhile leaves each child only the time to
    /// end what it has started. Another one kills the rest. No accepted work is lost.
    pub async fn stop(mut self, signals: &mut Signals) {
        let began = Instant::now();
        let workers = std::mem::take(&mut self.workers);
        let (coordinator, servers) = (self.coordinator.take(), self.servers.take());
        let children = workers.iter().chain(&coordinator);
        let mut hurry: Vec<_> = children.map(|child| child.supervised.hurry()).collect();
        hurry.extend(servers.iter().flat_map(Servers::hurry));
        let orderly = async {
            if !workers.is_empty() {
                report(&format!(
                    "stopping {} workers: running sessions get time to end, and their work is kept (Ctrl+C ends them at once)",
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
                () = &mut orderly => return report("stopped"),
                () = signals.next() => {}
            }
            if began.elapsed() < ONE_SIGNAL {
                continue;
            }
            if hurried {
                // Dropping a child kills its group.
                return report("killed; the next `up` continues from here");
            }
            report("ending everything at once; the next `up` continues from here");
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

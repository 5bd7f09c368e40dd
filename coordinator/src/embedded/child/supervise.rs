//! A child that is started again whenever it ends by itself, except with the status of
//! [`ChildSpec::may_finish`].
//!
//! ```text
//! Starting ─► Running ─(ends by itself)─► BackingOff ─► Running …      all ─(stop)─► Stopped
//!                └─(the exit status that is for good)─► Finished
//! ```
//! The supervising task makes every move. It never gives up, and its pauses are bounded. Whoever watches the
//! phases reports a child that keeps dying.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::process::Process;
use super::spec::ChildSpec;

/// The pauses between an exit and the next start: doubling from `first` up to `longest`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
    /// A child that ran this long resets the pause to `first`.
    pub forgive_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            forgive_after: Duration::from_secs(10),
        }
    }
}

impl Backoff {
    /// The pause after `exits` short runs in a row (at least 1).
    fn pause(&self, exits: u32) -> Duration {
        let factor = 1u32.checked_shl(exits.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Running {
        pid: u32,
        /// Number of starts, including this one.
        starts: u32,
    },
    /// It ended by itself, or could not be started, and is started again soon.
    BackingOff {
        /// Exits in a row, each after less than [`Backoff::forgive_after`].
        exits: u32,
        /// What happened, with the end of the log.
        problem: String,
    },
    /// It ended by itself for good ([`ChildSpec::may_finish`]).
    Finished,
    Stopped,
}

/// Keeps one child running until [`stop`](Self::stop). Dropping it kills the child's group.
#[derive(Debug)]
pub struct Supervised {
    phase: watch::Receiver<Phase>,
    stop: Option<oneshot::Sender<Manner>>,
    hurry: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    Orderly,
    Kill,
}

impl Supervised {
    /// Starts the child and a task that keeps it running; needs a tokio runtime.
    pub fn start(spec: ChildSpec, backoff: Backoff) -> Self {
        let (phase_sender, phase) = watch::channel(Phase::Starting);
        let (stop, stopped) = oneshot::channel();
        let hurry = CancellationToken::new();
        let task = tokio::spawn(supervise(spec, backoff, phase_sender, stopped, hurry.clone()));
        Self {
            phase,
            stop: Some(stop),
            hurry,
            task,
        }
    }

    /// Starts and exits, as they happen. A slow reader sees the latest.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    pub fn pid(&self) -> Option<u32> {
        match *self.phase.borrow() {
            Phase::Running { pid, .. } => Some(pid),
            _ => None,
        }
    }

    /// Cancel this during a stop to leave the child only a little time.
    pub fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }

    /// Stops the child with the steps of its spec and waits for its end.
    pub async fn stop(self) {
        self.end(Manner::Orderly).await;
    }

    /// Ends the child with SIGKILL, as a crash would, and doesn't start it again.
    pub async fn kill(self) {
        self.end(Manner::Kill).await;
    }

    async fn end(mut self, manner: Manner) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(manner);
        }
        // A panic of the task has already killed the child by dropping it.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn supervise(
    spec: ChildSpec,
    backoff: Backoff,
    phase: watch::Sender<Phase>,
    mut stopped: oneshot::Receiver<Manner>,
    hurry: CancellationToken,
) {
    let mut starts = 0;
    let mut exits = 0;
    loop {
        let problem = match Process::spawn(&spec) {
            Ok(process) => {
                starts += 1;
                let pid = process.pid();
                info!(child = spec.name(), pid, starts, "started");
                phase.send_replace(Phase::Running { pid, starts });
                let since = Instant::now();
                let status = tokio::select! {
                    status = process.wait() => status,
                    manner = &mut stopped => {
                        match manner {
                            Ok(Manner::Orderly) => process.stop_until(&hurry).await,
                            Ok(Manner::Kill) | Err(_) => process.kill().await,
                        };
                        break;
                    }
                };
                if status.code().is_some() && status.code() == spec.finished {
                    info!(child = spec.name(), "ended for good");
                    phase.send_replace(Phase::Finished);
                    let _ = (&mut stopped).await;
                    break;
                }
                if since.elapsed() >= backoff.forgive_after {
                    exits = 0;
                }
                describe_exit(&spec, status, &process)
            }
            Err(error) => format!("{error}: {}", error.source),
        };
        exits += 1;
        let pause = backoff.pause(exits);
        warn!(
            child = spec.name(),
            exits,
            pause_ms = pause.as_millis(),
            problem,
            "ended by itself"
        );
        phase.send_replace(Phase::BackingOff { exits, problem });
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = &mut stopped => break,
        }
    }
    phase.send_replace(Phase::Stopped);
}

fn describe_exit(spec: &ChildSpec, status: ExitStatus, process: &Process) -> String {
    let tail = process.log_tail();
    let output = if tail.is_empty() {
        "it wrote nothing".to_owned()
    } else {
        format!("it wrote last:\n{tail}")
    };
    format!(
        "{} ended ({status}); {output}\n(log: {})",
        spec.name(),
        spec.log().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::default();
        let check = |exits, ms| assert_eq!(backoff.pause(exits), Duration::from_millis(ms), "{exits}");
        check(1, 100);
        check(2, 200);
        check(6, 3_200);
        check(7, 5_000);
        check(40, 5_000);
    }
}

//! One running child: waiting, signals that can't hit another process, an orderly stop.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::log::{self, RotatingFile, Tail};
use super::spawn;
use super::spec::{ChildSpec, StopStep};

/// How long to wait for the last output after an exit. Only a grandchild that keeps the pipe open uses it up.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Time for a child to end after a hurried stop. A worker first ends the processes of its agents.
const HURRIED: Duration = Duration::from_secs(20);
/// Raw status of a child that the system no longer knows, as if signal 9 had killed it.
const UNKNOWN_RAW: i32 = 9;

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("failed to start {name} ({})", program.display())]
pub struct SpawnError {
    pub name: String,
    pub program: PathBuf,
    #[source]
    pub source: std::io::Error,
}

/// A child in its own process group. Dropping it kills the group.
pub struct Process {
    group: Arc<Group>,
    exit: watch::Receiver<Option<ExitStatus>>,
    tail: Tail,
    stop: Vec<StopStep>,
}

/// The child's process group. Signals and reaping exclude each other, so a signal never goes to a reused number.
struct Group {
    pid: Pid,
    reaped: Mutex<bool>,
}

impl Process {
    /// Starts the child. Needs no runtime; blocks only for fork and exec.
    pub fn spawn(spec: &ChildSpec) -> Result<Self, SpawnError> {
        let failed = |source| SpawnError {
            name: spec.name.clone(),
            program: spec.program.clone(),
            source,
        };
        let log_file = RotatingFile::open(&spec.log).map_err(failed)?;
        let (child, output) = spawn::spawn(spec).map_err(failed)?;
        let group = Arc::new(Group {
            pid: Pid::from_raw(child.id().cast_signed()),
            reaped: Mutex::new(false),
        });
        let tail = Tail::default();
        let (exit_sender, exit) = watch::channel(None);
        let process = Self {
            group: group.clone(),
            exit,
            tail: tail.clone(),
            stop: spec.stop.clone(),
        };

        let (drained_sender, drained) = mpsc::channel::<()>();
        let name = format!("{} output", spec.name);
        thread::Builder::new()
            .name(name)
            .spawn(move || {
                log::pump(output, log_file, tail);
                drop(drained_sender);
            })
            .map_err(failed)?;
        let name = format!("{} wait", spec.name);
        thread::Builder::new()
            .name(name)
            .spawn(move || {
                let status = group.reap(child);
                let _ = drained.recv_timeout(LAST_WORDS);
                exit_sender.send_replace(Some(status));
            })
            .map_err(failed)?;
        Ok(process)
    }

    /// The process id, also after its end.
    pub fn pid(&self) -> u32 {
        self.group.pid.as_raw().cast_unsigned()
    }

    /// Sends a signal to the child alone; nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        self.group.unless_reaped(|pid| signal::kill(pid, signal));
    }

    /// The exit status, if it has ended.
    pub fn exited(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// Waits for its end. May be dropped and called again.
    pub async fn wait(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        loop {
            if let Some(status) = *exit.borrow_and_update() {
                return status;
            }
            if exit.changed().await.is_err() {
                // The waiting thread always sends before it ends. If it is gone, nobody can know the status.
                return ExitStatus::from_raw(UNKNOWN_RAW);
            }
        }
    }

    /// Stops it with the steps of its spec, then with SIGKILL of the group.
    pub async fn stop(&self) -> ExitStatus {
        self.stop_until(&CancellationToken::new()).await
    }

    /// Like [`stop`](Self::stop). When `hurry` is cancelled, it sends the step's signal again and leaves the
    /// child only a little time.
    pub async fn stop_until(&self, hurry: &CancellationToken) -> ExitStatus {
        for step in &self.stop {
            self.signal(step.signal);
            tokio::select! {
                ended = tokio::time::timeout(step.grace, self.wait()) => match ended {
                    Ok(status) => return status,
                    Err(_) => continue,
                },
                () = hurry.cancelled() => {}
            }
            self.signal(step.signal);
            return match tokio::time::timeout(HURRIED, self.wait()).await {
                Ok(status) => status,
                Err(_) => self.kill().await,
            };
        }
        self.kill().await
    }

    /// Sends SIGKILL to the group and waits.
    pub async fn kill(&self) -> ExitStatus {
        self.group.kill();
        self.wait().await
    }

    /// The last few KB of its output.
    pub fn log_tail(&self) -> String {
        self.tail.text()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.group.kill();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("pid", &self.pid())
            .field("exited", &self.exited())
            .finish_non_exhaustive()
    }
}

impl Group {
    fn unless_reaped(&self, act: impl FnOnce(Pid) -> nix::Result<()>) {
        let reaped = self.reaped.lock();
        if !*reaped {
            // It fails only if no process is left to receive it.
            let _ = act(self.pid);
        }
    }

    fn kill(&self) {
        self.unless_reaped(|pid| signal::killpg(pid, Signal::SIGKILL));
    }

    /// Waits for the end, kills the rest of the group while the dead leader still holds its number, then
    /// reaps it.
    fn reap(&self, mut child: Child) -> ExitStatus {
        spawn::wait_without_reaping(self.pid);
        self.kill();
        let mut reaped = self.reaped.lock();
        let status = child.wait().unwrap_or(ExitStatus::from_raw(UNKNOWN_RAW));
        *reaped = true;
        status
    }
}

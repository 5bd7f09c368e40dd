//! Runs one program in its own process group, with limits on time and output. When the run is dropped or
//! times out, the whole group is killed.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::sandbox::{Confinement, Inside};
use crate::session::RedactedTail;

/// How long pipes are still read after the program ended, when a process that it started (a credential cache,
/// for example) holds them open.
const PIPE_GRACE: Duration = Duration::from_millis(200);

/// Longest wait for a killed program to exit.
const KILL_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub(in crate::workspace) struct Bounds {
    /// Wall time until its group is killed.
    pub time: Duration,
    /// Bytes kept from the beginning of standard output.
    pub stdout_bytes: usize,
    /// Bytes kept from the end of standard error.
    pub stderr_bytes: usize,
    /// Whether the program runs with the lowest priority.
    pub gentle: bool,
}

#[derive(Debug)]
pub(in crate::workspace) struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Whether standard output was longer.
    pub is_cut: bool,
    pub stderr: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(in crate::workspace) enum RunError {
    #[error("could not be run")]
    Io(#[from] io::Error),
    #[error("was ended after {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Runs `command` to its end with `input` on standard input. Dropping the future kills the group.
pub(in crate::workspace) async fn run(
    mut command: Command,
    input: &[u8],
    bounds: Bounds,
) -> Result<Finished, RunError> {
    command
        .stdin(if input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (mut child, group) = grouped(command.process_group(0).kill_on_drop(true).spawn()?);
    if bounds.gentle {
        group.lower_priority();
    }
    let stdin = child.stdin.take();
    let mut stdout = CappedOutput::head(bounds.stdout_bytes);
    let mut stderr = CappedOutput::tail(bounds.stderr_bytes);
    let pipes = (child.stdout.take(), child.stderr.take());
    let transfer = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // The exit status tells why a program didn't read its input.
                let _ = stdin.write_all(input).await;
            }
        };
        tokio::join!(write, stdout.fill(pipes.0), stderr.fill(pipes.1));
    };
    let ended = tokio::time::timeout(bounds.time, wait_and(&mut child, transfer)).await;
    let Ok(status) = ended else {
        drop(group);
        // Until it exits, it could still write files that the caller is about to remove.
        let _ = tokio::time::timeout(KILL_GRACE, child.wait()).await;
        return Err(RunError::TimedOut(bounds.time));
    };
    let status = status?;
    group.leave();
    Ok(Finished {
        status,
        is_cut: stdout.is_cut,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
    })
}

/// Runs `command`, which must be one of `confinement`, with standard output and error in one pipe. The whole
/// group is killed when the program ends, so no background process survives.
pub(in crate::workspace) async fn run_merged(
    mut command: Inside,
    confinement: &Confinement,
    time: Duration,
    output: &mut RedactedTail,
) -> Result<ExitStatus, RunError> {
    let reader = merge(&mut command)?;
    command.kill_on_drop(true);
    let child = confinement.spawn(&mut command)?;
    let (mut child, _group) = grouped(child);
    // The command holds the parent's copies of the pipe's write end.
    drop(command);
    end_merged(&mut child, reader, time, output).await
}

/// As [`run_merged`], for the user's own command, which has the worker's rights: its background processes
/// survive.
pub(in crate::workspace) async fn run_own(
    mut command: Command,
    time: Duration,
    output: &mut RedactedTail,
) -> Result<ExitStatus, RunError> {
    let reader = merge(&mut command)?;
    let (mut child, group) = grouped(command.process_group(0).kill_on_drop(true).spawn()?);
    drop(command);
    let status = end_merged(&mut child, reader, time, output).await?;
    group.leave();
    Ok(status)
}

/// Connects all output of a command to one pipe, and returns the read end.
fn merge(command: &mut Command) -> io::Result<pipe::Receiver> {
    let (reader, writer) = io::pipe()?;
    let writer = OwnedFd::from(writer);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::from(writer.try_clone()?))
        .stderr(Stdio::from(writer));
    pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
}

/// Waits for a command's end and collects its output meanwhile.
async fn end_merged(
    child: &mut Child,
    mut reader: pipe::Receiver,
    time: Duration,
    output: &mut RedactedTail,
) -> Result<ExitStatus, RunError> {
    let transfer = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            output.push(&buffer[..count]);
        }
    };
    let status = tokio::time::timeout(time, wait_and(child, transfer)).await;
    output.end();
    Ok(status.map_err(|_| RunError::TimedOut(time))??)
}

/// A child that leads a process group, and that group.
fn grouped(child: Child) -> (Child, Group) {
    let group = Group(
        child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .map(Pid::from_raw),
    );
    (child, group)
}

/// Waits for the program's end while `transfer` runs, and then no longer than [`PIPE_GRACE`] for the pipes.
async fn wait_and(child: &mut Child, transfer: impl Future<Output = ()>) -> io::Result<ExitStatus> {
    tokio::pin!(transfer);
    let mut transferred = false;
    let status = loop {
        tokio::select! {
            () = &mut transfer, if !transferred => transferred = true,
            status = child.wait() => break status?,
        }
    };
    if !transferred {
        let _ = tokio::time::timeout(PIPE_GRACE, transfer).await;
    }
    Ok(status)
}

/// A process group that is killed when this value is dropped, unless `leave` was called.
struct Group(Option<Pid>);

/// The lowest priority that a process can have: nineteen steps below the usual one.
const LOWEST_PRIORITY: i32 = 19;

impl Group {
    fn leave(mut self) {
        self.0 = None;
    }

    /// Gives the group the lowest priority.
    fn lower_priority(&self) {
        let group = self
            .0
            .and_then(|group| rustix::process::Pid::from_raw(group.as_raw()));
        if let Some(group) = group {
            // On failure it keeps its usual priority.
            let _ = rustix::process::setpriority_pgrp(Some(group), LOWEST_PRIORITY);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// A limited part of a stream; the rest is read and discarded.
struct CappedOutput {
    bytes: Vec<u8>,
    limit: usize,
    end: bool,
    is_cut: bool,
}

impl CappedOutput {
    fn head(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            end: false,
            is_cut: false,
        }
    }

    fn tail(limit: usize) -> Self {
        Self {
            end: true,
            ..Self::head(limit)
        }
    }

    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..count]);
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.end {
            self.bytes.extend_from_slice(bytes);
            let excess = self.bytes.len().saturating_sub(self.limit);
            self.bytes.drain(..excess);
            self.is_cut |= excess > 0;
        } else {
            let space = self.limit - self.bytes.len();
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(space)]);
            self.is_cut |= bytes.len() > space;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::session::Redactor;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn bounds(time: Duration) -> Bounds {
        Bounds {
            time,
            stdout_bytes: 4,
            stderr_bytes: 4,
            gentle: false,
        }
    }

    #[tokio::test]
    async fn the_head_of_output_and_the_tail_of_errors_are_kept() {
        let command = shell("cat; printf abcdefgh >&2; exit 3");
        let finished = run(command, b"12345678", bounds(Duration::from_secs(20)))
            .await
            .unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(
            (finished.stdout.as_slice(), finished.stderr.as_slice()),
            (&b"1234"[..], &b"efgh"[..])
        );
        assert!(finished.is_cut);
        let whole = run(shell("printf 1234"), b"", bounds(Duration::from_secs(20))).await;
        assert!(!whole.unwrap().is_cut);
    }

    #[tokio::test]
    async fn a_timeout_kills_a_program_with_its_children() {
        let (mut reader, writer) = io::pipe().unwrap();
        // Both the shell and its child hold the pipe as descriptor 3.
        let pipe = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let command = shell(&format!("exec 3>{pipe}; sleep 600 & echo started >&3; wait"));
        let error = run(command, b"", bounds(Duration::from_millis(300)))
            .await
            .unwrap_err();
        assert!(matches!(error, RunError::TimedOut(_)), "{error:?}");
        drop(writer);
        // The pipe ends only when the last process that holds it is dead.
        let read = tokio::task::spawn_blocking(move || io::read_to_string(&mut reader));
        assert_eq!(read.await.unwrap().unwrap(), "started\n");
    }

    #[tokio::test]
    async fn a_gentle_program_has_the_lowest_priority() {
        let bounds = Bounds {
            gentle: true,
            ..bounds(Duration::from_secs(20))
        };
        // The priority changes after the start, so the script polls for it.
        let command = shell("until [ \"$(nice)\" = 19 ]; do :; done; nice");
        let finished = run(command, b"", bounds).await.unwrap();
        assert_eq!(finished.stdout, b"19\n");
    }

    #[tokio::test]
    async fn merged_output_keeps_its_order_and_the_group_is_killed() {
        let confinement = Confinement::none();
        let own = std::env::vars_os().collect();
        let mut command = confinement.command("sh", &own).unwrap();
        command.args(["-c", "echo a; echo b >&2; echo c; sleep 600 & exit 1"]);
        let mut output = RedactedTail::new(&Redactor::default(), 100);
        let status = run_merged(command, &confinement, Duration::from_secs(20), &mut output).await;
        assert_eq!(status.unwrap().code(), Some(1));
        assert_eq!(output.text(), "a\nb\nc\n");
    }
}

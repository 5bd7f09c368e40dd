//! The agent's process: its process group, a cleaned environment, pipes, and the redacted end of its standard
//! error.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use parking_lot::Mutex;
use ralph_shared::plain::plain;
use ralph_shared::wire::{EndReason, Ended, Unavailable};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdout};
use tokio::task::JoinHandle;

use super::leftovers::{self, Group, MARK};
use crate::sandbox::Confinement;
use crate::session::redaction::Redactor;
use crate::session::redaction::tail::RedactedTail;
use crate::session::spec::SessionSpec;
use crate::tools::{self, Surroundings, Tools};

/// How much of the agent's standard error is kept. Bytes.
pub const STDERR_TAIL_BYTES: usize = 16 * 1024;

/// Longest wait for the end of standard error after the agent's exit.
const STDERR_WAIT: Duration = Duration::from_millis(200);

/// A running agent. Dropping it kills every process of its session.
pub struct Agent {
    child: Child,
    /// Its process group. `None` if the process exited at once.
    group: Option<Group>,
    /// Whether the sandbox's wrapper program leads the group.
    wrapped: bool,
    mark: String,
    /// The session's process groups: the agent's and its terminals'.
    groups: Vec<Group>,
    exit: Option<ExitStatus>,
    stderr: Arc<Mutex<RedactedTail>>,
    stderr_reader: JoinHandle<()>,
    cleaned: bool,
}

pub struct Pipes {
    pub stdin: pipe::Sender,
    pub stdout: ChildStdout,
}

impl Agent {
    /// Starts the agent.
    ///
    /// # Errors
    /// Returns how the session ended. A command that can't run is a failed start (SPEC 7.3); a missing
    /// working directory is a workspace error.
    pub fn start(
        spec: &SessionSpec,
        environment: BTreeMap<OsString, OsString>,
        confinement: &Confinement,
        redactor: &Redactor,
    ) -> Result<(Self, Pipes), Ended> {
        if LEAVING.load(Ordering::Relaxed) {
            let reason = EndReason::Drain;
            return Err(Ended::Told { reason });
        }
        if !spec.cwd.is_dir() {
            return Err(Ended::Workspace {
                message: format!("the session's folder {} is not there", spec.cwd.display()),
                away: false,
            });
        }
        let mut child = spawn(spec, &environment, confinement)?;
        let group = Group::led_by(&child);
        let stderr = Arc::new(Mutex::new(RedactedTail::new(redactor, STDERR_TAIL_BYTES)));
        let taken = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .zip(child.stderr.take());
        let Some(((stdin, stdout), source)) = taken else {
            return Err(not_found(spec, "its pipes could not be made"));
        };
        let stderr_reader = tokio::spawn(keep_tail(source, stderr.clone()));
        let agent = Self {
            child,
            groups: group.iter().cloned().collect(),
            group,
            wrapped: confinement.is_wrapped(),
            mark: spec.dispatch.clone(),
            exit: None,
            stderr,
            stderr_reader,
            cleaned: false,
        };
        let stdin = stdin
            .into_owned_fd()
            .and_then(pipe::Sender::from_owned_fd)
            .map_err(|error| not_found(spec, &error.to_string()))?;
        Ok((agent, Pipes { stdin, stdout }))
    }

    /// Waits for the process to exit. The future can be dropped and created again.
    pub async fn exited(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() {
            self.exit = self.child.wait().await.ok();
            if let Some(group) = &self.group {
                group.leader_is_gone();
            }
        }
        self.exit
    }

    /// Exit status, if the process exited.
    pub fn exit(&self) -> Option<ExitStatus> {
        self.exit
    }

    /// Sends a signal to the agent's process group unless the agent exited.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = &self.group {
            group.signal(signal, self.wrapped);
        }
    }

    /// Adds a process group to the session.
    pub fn add_group(&mut self, group: Group) {
        self.groups.push(group);
    }

    /// Kills all processes of the session. Returns their number and the end of standard error.
    pub async fn clean_up(mut self) -> (usize, String) {
        self.signal(Signal::SIGKILL);
        // A process that hangs in the kernel or that another user runs must not hold its slot forever.
        if tokio::time::timeout(leftovers::GONE_LIMIT, self.exited())
            .await
            .is_err()
        {
            tracing::warn!(mark = self.mark, "a killed agent does not exit");
        }
        let (mark, groups) = (self.mark.clone(), self.groups.clone());
        let killed = tokio::task::spawn_blocking(move || leftovers::kill_marked(&mark, &groups)).await;
        self.cleaned = killed.is_ok();
        self.drain_stderr().await;
        (killed.unwrap_or(0), self.stderr_tail())
    }

    /// Waits for a bounded time until standard error is read to its end.
    pub async fn drain_stderr(&mut self) {
        if !self.stderr_reader.is_finished() {
            let _ = tokio::time::timeout(STDERR_WAIT, &mut self.stderr_reader).await;
        }
    }

    /// The end of standard error so far.
    pub fn stderr_tail(&self) -> String {
        plain(&self.stderr.lock().text()).into_owned()
    }

    /// Standard error since this time, as far as it is stored.
    pub fn stderr_since(&self, since: Instant) -> String {
        let stderr = self.stderr.lock();
        plain(&stderr.text_since(since)).into_owned()
    }
}

fn spawn(
    spec: &SessionSpec,
    environment: &BTreeMap<OsString, OsString>,
    confinement: &Confinement,
) -> Result<Child, Ended> {
    let Some((program, arguments)) = spec.agent.argv.split_first() else {
        return Err(not_found(spec, "its command is empty"));
    };
    let mut command = confinement
        .command(program, environment)
        .map_err(|error| not_found(spec, &error.to_string()))?;
    command
        .args(arguments)
        .current_dir(&spec.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    confinement.spawn(&mut command).map_err(|error| {
        // The worker's machine is at fault, not the agent: the start is repeated after a pause.
        if is_short_of(&error) {
            let message = format!("the agent can't be started now: {error}");
            return Ended::Workspace { message, away: true };
        }
        let refused = confinement.is_confined() && error.kind() == std::io::ErrorKind::PermissionDenied;
        let hint = if refused { " (in its sandbox)" } else { "" };
        not_found(spec, &format!("{error}{hint}"))
    })
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stderr_reader.abort();
        if !self.cleaned {
            self.signal(Signal::SIGKILL);
            let (mark, groups) = (std::mem::take(&mut self.mark), std::mem::take(&mut self.groups));
            std::thread::spawn(move || leftovers::kill_marked(&mark, &groups));
        }
    }
}

async fn keep_tail(mut source: tokio::process::ChildStderr, tail: Arc<Mutex<RedactedTail>>) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        tail.lock().push(&buffer[..count]);
    }
    tail.lock().end();
}

fn not_found(spec: &SessionSpec, cause: &str) -> Ended {
    let command = spec.agent.argv.first().map_or("", String::as_str);
    Ended::Unavailable {
        door: Unavailable::NotFound,
        message: format!(
            "failed to start the agent `{}` as `{command}`: {cause}; is it installed on this worker, and on its PATH?",
            spec.agent.name
        ),
    }
}

/// Exit code or signal in words.
pub fn exit_words(exit: ExitStatus) -> String {
    match (
        exit.code(),
        exit.signal().and_then(|signal| Signal::try_from(signal).ok()),
    ) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by {}", signal.as_str()),
        (None, None) => "ended".to_owned(),
    }
}

/// The complete environment of an agent: the environment of setup and gates, variables about the work, and
/// this agent's own variables. It never contains the broker's or the database's credentials (DESIGN 5).
pub async fn environment(spec: &SessionSpec, tools: &Tools) -> std::io::Result<BTreeMap<OsString, OsString>> {
    let around = Surroundings {
        session_folder: spec.session_folder.as_deref(),
        home: &spec.home,
        tmp: &spec.tmp,
        sandbox: &spec.sandbox,
        tools,
    };
    let mut environment = tools::environment(around).await?;
    let own = spec
        .agent
        .pass_env
        .iter()
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let given = spec.env.iter().chain(&spec.agent.env);
    environment.extend(own.chain(given.map(|(name, value)| (name.into(), value.into()))));
    environment.insert(MARK.into(), spec.dispatch.clone().into());
    Ok(environment)
}

static LEAVING: AtomicBool = AtomicBool::new(false);

/// Prevents further starts of agents: the worker exits at once, so nobody could run a retry.
pub fn start_no_more() {
    LEAVING.store(true, Ordering::Relaxed);
}

/// Whether the machine is out of files, processes, memory or disk now.
pub fn is_short_of(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM | libc::ENOSPC)
    )
}

//! Terminals for agents: child processes in their own process groups, with their newest output.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, Error as RpcError, TerminalExitStatus, TerminalOutputResponse,
};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::files::refused;
use crate::sandbox::Confinement;
use crate::session::process::leftovers::{Group, MARK};
use crate::session::process::tail::Tail;

/// How many terminals a session may hold at a time.
pub const MOST_TERMINALS: usize = 32;

/// Most output kept for one terminal, whatever the agent asks for. Bytes.
pub const LONGEST_OUTPUT_BYTES: u64 = 1024 * 1024;

/// Time from TERM to KILL.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// How long to wait after a command's exit for output from other processes that hold its pipe.
const OUTPUT_WAIT: Duration = Duration::from_millis(100);

/// The terminals of one session. Dropping it kills their process groups.
#[derive(Default)]
pub struct Terminals {
    live: HashMap<String, Terminal>,
    made: u64,
}

struct Terminal {
    group: Group,
    /// Whether the sandbox's wrapper program leads the group.
    wrapped: bool,
    tail: Arc<Mutex<Tail>>,
    exit: watch::Receiver<Option<TerminalExitStatus>>,
    watcher: JoinHandle<()>,
}

pub struct CreatedTerminal {
    pub id: String,
    pub group: Group,
}

pub struct Output {
    tail: Arc<Mutex<Tail>>,
    exit: watch::Receiver<Option<TerminalExitStatus>>,
}

impl Output {
    /// The output, and the exit status if the command exited.
    pub fn read(&self) -> TerminalOutputResponse {
        let exit = self.exit.borrow().clone();
        let tail = self.tail.lock();
        TerminalOutputResponse::new(tail.text(), tail.is_cut()).exit_status(exit)
    }
}

impl Terminals {
    /// Starts a command. A command without arguments that contains blanks goes through a shell, as agents
    /// expect.
    ///
    /// # Errors
    /// Fails if the session has too many terminals or the command does not start.
    pub fn create(
        &mut self,
        request: &CreateTerminalRequest,
        cwd: &Path,
        environment: &BTreeMap<OsString, OsString>,
        confinement: &Confinement,
    ) -> Result<CreatedTerminal, RpcError> {
        if self.live.len() >= MOST_TERMINALS {
            return Err(refused(format!(
                "there are {MOST_TERMINALS} terminals already: release one first"
            )));
        }
        let fail = |error: std::io::Error| refused(format!("failed to run `{}`: {error}", request.command));
        let line = request.args.is_empty() && request.command.contains(char::is_whitespace);
        let environment = extended(environment, request);
        let program = if line { "/bin/sh" } else { &request.command };
        let mut command = confinement.command(program, &environment).map_err(fail)?;
        if line {
            command.args(["-c", &request.command]);
        }
        let (output, input) = std::io::pipe().map_err(fail)?;
        command
            .args(&request.args)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(input.try_clone().map_err(fail)?)
            .stderr(input)
            .kill_on_drop(true);
        let child = confinement.spawn(&mut command).map_err(fail)?;
        // The command holds the pipe's writing end. Drop it so that the reader sees the end of the output.
        drop(command);
        let group = Group::led_by(&child).ok_or_else(|| fail(std::io::ErrorKind::NotFound.into()))?;
        let output = pipe::Receiver::from_owned_fd(output.into()).map_err(fail)?;
        let limit = request
            .output_byte_limit
            .unwrap_or(LONGEST_OUTPUT_BYTES)
            .min(LONGEST_OUTPUT_BYTES);
        let tail = Arc::new(Mutex::new(Tail::new(usize::try_from(limit).unwrap_or(0))));
        let (exited, exit) = watch::channel(None);
        let watcher = tokio::spawn(watch_over(child, group.clone(), output, tail.clone(), exited));
        self.made += 1;
        let id = format!("term-{}", self.made);
        self.live.insert(
            id.clone(),
            Terminal {
                group: group.clone(),
                wrapped: confinement.is_wrapped(),
                tail,
                exit,
                watcher,
            },
        );
        Ok(CreatedTerminal { id, group })
    }

    /// A handle to read the terminal's output later.
    pub fn output(&self, id: &str) -> Result<Output, RpcError> {
        let terminal = self.get(id)?;
        Ok(Output {
            tail: terminal.tail.clone(),
            exit: terminal.exit.clone(),
        })
    }

    /// Waits until the command has exited.
    pub fn exit(&self, id: &str) -> Result<impl Future<Output = TerminalExitStatus> + use<>, RpcError> {
        let mut exit = self.get(id)?.exit.clone();
        Ok(async move {
            match exit.wait_for(Option::is_some).await {
                Ok(status) => status.clone().unwrap_or_default(),
                Err(_) => TerminalExitStatus::new().signal("SIGKILL".to_owned()),
            }
        })
    }

    /// Ends the command with TERM, and soon after with KILL if it ignores TERM.
    pub fn kill(&self, id: &str) -> Result<(), RpcError> {
        let terminal = self.get(id)?;
        terminal.signal(Signal::SIGTERM);
        let (group, mut exit) = (terminal.group.clone(), terminal.exit.clone());
        tokio::spawn(async move {
            let exited = tokio::time::timeout(KILL_GRACE, exit.wait_for(Option::is_some));
            if exited.await.is_err() {
                group.signal(Signal::SIGKILL, false);
            }
        });
        Ok(())
    }

    /// Kills the command and removes the terminal.
    pub fn release(&mut self, id: &str) -> Result<(), RpcError> {
        self.live.remove(id).map(drop).ok_or_else(|| unknown(id))
    }

    fn get(&self, id: &str) -> Result<&Terminal, RpcError> {
        self.live.get(id).ok_or_else(|| unknown(id))
    }
}

/// The environment plus the agent's variables for the command.
fn extended(
    environment: &BTreeMap<OsString, OsString>,
    request: &CreateTerminalRequest,
) -> BTreeMap<OsString, OsString> {
    let mut environment = environment.clone();
    let mark = environment.get_key_value(OsStr::new(MARK));
    let mark = mark.map(|(name, value)| (name.clone(), value.clone()));
    let given = request.env.iter();
    environment
        .extend(given.map(|variable| (OsString::from(&variable.name), OsString::from(&variable.value))));
    // The agent must not change the mark.
    environment.extend(mark);
    environment
}

fn unknown(id: &str) -> RpcError {
    RpcError::resource_not_found(Some(format!("terminal {id}")))
}

impl Terminal {
    fn signal(&self, signal: Signal) {
        self.group.signal(signal, self.wrapped);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        // The aborted watcher can't report the exit. From now on another process may reuse the group's
        // number.
        self.group.leader_is_gone();
        self.watcher.abort();
    }
}

/// Collects output until all writers are gone, and reports when the command exits.
async fn watch_over(
    mut child: Child,
    group: Group,
    mut output: pipe::Receiver,
    tail: Arc<Mutex<Tail>>,
    exited: watch::Sender<Option<TerminalExitStatus>>,
) {
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = output.read(&mut buffer).await {
            tail.lock().push(&buffer[..count]);
        }
    };
    tokio::pin!(reading);
    let mut open = true;
    let exit = loop {
        tokio::select! {
            exit = child.wait() => break exit,
            () = &mut reading, if open => open = false,
        }
    };
    group.leader_is_gone();
    if open {
        open = tokio::time::timeout(OUTPUT_WAIT, &mut reading).await.is_err();
    }
    let _ = exited.send(Some(exit.map(status).unwrap_or_default()));
    if open {
        reading.await;
    }
}

fn status(exit: ExitStatus) -> TerminalExitStatus {
    let signal = exit.signal().map(|number| {
        Signal::try_from(number).map_or_else(|_| number.to_string(), |signal| signal.as_str().to_owned())
    });
    TerminalExitStatus::new()
        .exit_code(exit.code().and_then(|code| u32::try_from(code).ok()))
        .signal(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> BTreeMap<OsString, OsString> {
        BTreeMap::from([
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            (crate::session::process::leftovers::MARK.into(), "d-mark".into()),
        ])
    }

    fn shell(line: &str) -> CreateTerminalRequest {
        CreateTerminalRequest::new("s", "sh").args(vec!["-c".to_owned(), line.to_owned()])
    }

    fn create(terminals: &mut Terminals, request: &CreateTerminalRequest) -> String {
        terminals
            .create(request, Path::new("/"), &environment(), &Confinement::none())
            .unwrap()
            .id
    }

    #[tokio::test]
    async fn a_terminal_collects_both_streams_and_the_exit_code() {
        use agent_client_protocol::v1::schema::EnvVariable;
        let mut terminals = Terminals::default();
        let request = shell("echo $A; pwd; echo $RALPH_DISPATCH; echo err >&2; exit 3").env(vec![
            EnvVariable::new("A", "a b"),
            EnvVariable::new("RALPH_DISPATCH", "forged"),
        ]);
        let id = create(&mut terminals, &request);
        let exit = terminals.exit(&id).unwrap().await;
        assert_eq!(exit.exit_code, Some(3));
        let output = terminals.output(&id).unwrap().read();
        assert_eq!(output.output, "a b\n/\nd-mark\nerr\n");
        assert_eq!(output.exit_status, Some(exit));
        terminals.release(&id).unwrap();
        assert!(terminals.output(&id).is_err());
    }

    #[tokio::test]
    async fn a_terminals_environment_does_not_reach_the_sandbox_wrapper() {
        use crate::sandbox::{Policy, Sandbox, SandboxMode, bubblewrap};
        use agent_client_protocol::v1::schema::EnvVariable;
        if bubblewrap().is_none() {
            eprintln!("bubblewrap is not installed here, or can't make namespaces: nothing to try");
            return;
        }
        let outside = tempfile::tempdir().unwrap();
        let file = outside.path().join("loaded");
        let sandbox = Sandbox {
            mode: SandboxMode::Bubblewrap,
            ..Sandbox::default()
        };
        let policy = Policy {
            read: ["/usr", "/bin", "/lib", "/lib64"].map(Into::into).to_vec(),
            ..Policy::default()
        };
        let confinement = Confinement::new(&sandbox, &policy, "a-terminals-environment").unwrap();
        // The loader of any program started with these variables writes to the file.
        let request = shell("echo $LD_DEBUG_OUTPUT").env(vec![
            EnvVariable::new("LD_DEBUG", "libs"),
            EnvVariable::new("LD_DEBUG_OUTPUT", file.display().to_string()),
        ]);
        let mut terminals = Terminals::default();
        let id = terminals
            .create(&request, Path::new("/"), &environment(), &confinement)
            .unwrap()
            .id;
        assert_eq!(terminals.exit(&id).unwrap().await.exit_code, Some(0));
        let output = terminals.output(&id).unwrap().read().output;
        assert!(output.ends_with(&format!("{}\n", file.display())), "{output}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_command_line_goes_through_a_shell() {
        let mut terminals = Terminals::default();
        let id = create(
            &mut terminals,
            &CreateTerminalRequest::new("s", "printf one; printf two"),
        );
        terminals.exit(&id).unwrap().await;
        assert_eq!(terminals.output(&id).unwrap().read().output, "onetwo");
        let missing = CreateTerminalRequest::new("s", "no-such-command");
        assert!(
            terminals
                .create(&missing, Path::new("/"), &environment(), &Confinement::none())
                .is_err()
        );
    }

    #[tokio::test]
    async fn only_the_newest_output_is_kept() {
        let mut terminals = Terminals::default();
        let request = shell("yes é | head -c 50000000; printf done").output_byte_limit(8);
        let id = create(&mut terminals, &request);
        terminals.exit(&id).unwrap().await;
        let output = terminals.output(&id).unwrap().read();
        assert_eq!((output.output.as_str(), output.truncated), ("\nédone", true));
    }

    #[tokio::test]
    async fn a_command_that_ignores_term_is_killed() {
        let mut terminals = Terminals::default();
        let id = create(
            &mut terminals,
            &shell("trap '' TERM; echo up; while :; do sleep 1; done"),
        );
        let tail = terminals.live[&id].tail.clone();
        while tail.lock().text().is_empty() {
            tokio::task::yield_now().await;
        }
        terminals.kill(&id).unwrap();
        let exit = terminals.exit(&id).unwrap().await;
        assert_eq!(exit.signal.as_deref(), Some("SIGKILL"));
    }

    #[tokio::test]
    async fn a_session_has_a_limited_number_of_terminals() {
        let mut terminals = Terminals::default();
        for _ in 0..MOST_TERMINALS {
            create(&mut terminals, &shell("exec sleep 600"));
        }
        assert!(
            terminals
                .create(
                    &shell("true"),
                    Path::new("/"),
                    &environment(),
                    &Confinement::none()
                )
                .is_err()
        );
    }
}

//! Commands that the agent runs itself.

use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::{fs, io};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::ToolKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::super::script::Expect;
use super::super::turn::{Flow, Turn};

/// Size of the retained end of a command's output.
const OUTPUT_TAIL_BYTES: usize = 16 << 10;

impl Turn {
    pub(super) async fn run_command(&self, command: &str, expect: Expect) -> Result<Flow, Error> {
        let tool = self.begin_tool(command, ToolKind::Execute, None, json!({ "command": command }))?;
        let finished = run(command, &self.session.cwd).await;
        let (passed, output) = match &finished {
            Ok((status, output)) => (status.success(), format!("{output}{status}")),
            Err(error) => (false, format!("failed to run it: {error}")),
        };
        tool.end(if passed {
            Ok(output.clone())
        } else {
            Err(output.clone())
        })?;
        match (expect, passed) {
            (Expect::Pass, false) => self.fail(command, &output),
            (Expect::Fail, true) => {
                self.fail(command, &format!("it passed and should have failed\n{output}"))
            }
            _ => Ok(Flow::On),
        }
    }
}

/// Kills a shell and its children if dropped early.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        // Without an id, the shell has been waited for.
        if let Some(pid) = self.0.id().and_then(|pid| i32::try_from(pid).ok()) {
            kill_tree(Pid::from_raw(pid));
        }
    }
}

/// Runs a shell command to its end. Its output counts up to its exit; processes that it left in the
/// background may go on.
async fn run(command: &str, folder: &std::path::Path) -> io::Result<(ExitStatus, String)> {
    let (output, writer) = io::pipe()?;
    let mut output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(command)
        .current_dir(folder)
        .stdin(Stdio::null());
    shell.stdout(writer.try_clone()?).stderr(writer);
    let mut child = Shell(shell.spawn()?);
    // The command has the pipe's write ends; open, they would hide its end.
    drop(shell);

    let mut tail = Tail::default();
    let mut buffer = vec![0; OUTPUT_TAIL_BYTES];
    let status = loop {
        tokio::select! {
            biased;
            read = output.read(&mut buffer) => match read? {
                0 => break child.0.wait().await?,
                size_bytes => tail.push(&buffer[..size_bytes]),
            },
            status = child.0.wait() => break status?,
        }
    };
    while let Ok(size_bytes @ 1..) = output.try_read(&mut buffer) {
        tail.push(&buffer[..size_bytes]);
    }
    Ok((status, tail.into_text()))
}

/// The last bytes of an output.
#[derive(Debug, Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let over = self.0.len().saturating_sub(OUTPUT_TAIL_BYTES);
        self.0.drain(..over);
    }

    /// The text, with a line break at its end.
    fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.0).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

/// Kills a process and its descendants, as far as `/proc` lists them.
fn kill_tree(root: Pid) {
    let children = fs::read_to_string(format!("/proc/{root}/task/{root}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        kill_tree(Pid::from_raw(child));
    }
    let _ = kill(root, Signal::SIGKILL);
}

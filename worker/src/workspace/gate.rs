//! Runs the commands that a rebased commit has to pass, in a throw-away checkout of exactly that commit.
//!
//! What a gate runs was written by agents: it gets a minimal environment, a home of its own, a bound, and a process
//! group that ends with it.

use std::path::Path;
use std::process::ExitStatus;

use tokio::process::Command;

use super::process::{self, RunError};
use super::record::Folders;
use super::workspaces::Settings;

/// How much of a command's output is kept, its end.
const OUTPUT_BYTES: usize = 16 << 10;

/// Variables of the worker's that a gate's commands see.
const PASSED: &[&str] = &["PATH", "LANG", "TERM", "TZ"];

/// A command that didn't succeed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GateFailure {
    pub command: String,
    /// The end of its output, and how it ended.
    pub output: String,
}

/// Runs the commands one after the other, each by `sh -c` in `tree`; the first that fails is the answer.
pub(super) async fn run(
    commands: &[String],
    tree: &Path,
    folders: &Folders,
    settings: &Settings,
) -> Option<GateFailure> {
    for command in commands {
        let (status, output) = process::run_merged(
            shell(command, tree, folders, settings),
            settings.gate_bound,
            OUTPUT_BYTES,
        )
        .await;
        if let Some(how) = failure(status) {
            let output = String::from_utf8_lossy(&output);
            return Some(GateFailure {
                command: command.clone(),
                output: format!("{output}\n[{how}]\n"),
            });
        }
    }
    None
}

fn shell(script: &str, tree: &Path, folders: &Folders, settings: &Settings) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(tree).env_clear();
    let passed = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        PASSED.contains(&&*name) || name.starts_with("LC_")
    });
    command
        .envs(passed)
        .env("HOME", folders.home())
        .env("TMPDIR", folders.tmp())
        .env("RALPH_GATE", "1");
    command.envs(&settings.gate_env);
    command
}

fn failure(status: Result<ExitStatus, RunError>) -> Option<String> {
    match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(RunError::Io(error)) => Some(format!("could not be run: {error}")),
        Err(error @ RunError::TimedOut(_)) => Some(error.to_string()),
    }
}

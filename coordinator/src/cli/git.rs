//! The git command line, as the commands use it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;

/// How long git may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Called from a hook, these would mean another repository.
const NOT_OURS: [&str; 5] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// What git prints, without the line end at its end; in `folder`, else in the current one.
///
/// # Errors
/// When git fails, with its own words, or doesn't answer.
pub async fn git(folder: Option<&Path>, args: &[&str]) -> anyhow::Result<String> {
    let mut command = prepare(folder, args);
    command.stdin(Stdio::null()).kill_on_drop(true).env("LC_ALL", "C");
    let output = tokio::time::timeout(ANSWER_WITHIN, command.output())
        .await
        .context("git did not answer in time")?
        .context("failed to start git; is it installed?")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("git failed: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Lets git talk to the terminal itself: pager, colours, progress.
///
/// # Errors
/// When git can't be started, or fails.
pub async fn git_shown(args: &[&str]) -> anyhow::Result<()> {
    let status = prepare(None, args)
        .status()
        .await
        .context("failed to start git; is it installed?")?;
    anyhow::ensure!(
        status.success(),
        "git {} failed ({status})",
        args.first().unwrap_or(&"")
    );
    Ok(())
}

fn prepare(folder: Option<&Path>, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    if let Some(folder) = folder {
        command.arg("-C").arg(folder);
    }
    command
        .args(args.iter().map(OsStr::new))
        .env("GIT_TERMINAL_PROMPT", "0");
    for name in NOT_OURS {
        command.env_remove(name);
    }
    command
}

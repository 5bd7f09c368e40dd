//! Runs the git command line for the commands.

pub(crate) mod branch;
pub(crate) mod checked_out;
pub(crate) mod diff;
pub(crate) mod paths;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use ralph_domain::names::repository::{is_address, normalised};
use tokio::process::Command;

use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::terminal::pager::{self, GitPager};

/// Time limit of a git command.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// In a hook, git sets these to the hook's repository.
const NOT_OURS: [&str; 5] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// Output of git without trailing white space; runs in `folder`, else in the current folder.
///
/// # Errors
/// When git fails (with its own message), or doesn't respond in time.
pub async fn git(folder: Option<&Path>, args: &[&str]) -> anyhow::Result<String> {
    let mut command = prepare(folder, args);
    command.stdin(Stdio::null()).kill_on_drop(true).env("LC_ALL", "C");
    let output = tokio::time::timeout(TIME_LIMIT, command.output())
        .await
        .context("git did not answer in time")?
        .context("failed to start git; is it installed?")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("git failed: {}", stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Runs git with the terminal, so that it shows colours and progress.
pub async fn git_shown(args: &[&str]) -> anyhow::Result<()> {
    run(prepare(None, args), args).await
}

/// Runs git through a pager, if there is one.
pub async fn git_paged(globals: &Globals, args: &[&str]) -> anyhow::Result<()> {
    let mut command = match pager::of_git(globals) {
        GitPager::Never => prepare(None, &[&["--no-pager"], args].concat()),
        GitPager::This(_) | GitPager::Its => prepare(None, args),
    };
    if let GitPager::This(pager) = pager::of_git(globals) {
        command.env("GIT_PAGER", pager);
    }
    let _interrupts = pager::leave_interrupts()?;
    run(command, args).await
}

async fn run(mut command: Command, args: &[&str]) -> anyhow::Result<()> {
    let status = command
        .status()
        .await
        .context("failed to start git; is it installed?")?;
    anyhow::ensure!(
        status.success() || pager::is_broken_pipe(status),
        "git {} failed ({status})",
        args.first().unwrap_or(&"")
    );
    Ok(())
}

/// Fetches one ref into the current repository, and returns its commit. There is no time limit: git shows
/// progress, and ends with Ctrl+C.
///
/// # Errors
/// When git fails; git itself has printed why.
pub async fn fetch(address: &str, source: &str) -> anyhow::Result<String> {
    let mut args = vec!["fetch", "--quiet", "--no-tags"];
    if std::io::stderr().is_terminal() {
        args.push("--progress");
    }
    args.extend(["--", address, source]);
    git_shown(&args).await?;
    git(None, &["rev-parse", "FETCH_HEAD"]).await
}

/// The fetch source for `address` in the clone in `folder`, else in the current one: the clone's own remote
/// of that repository, if it has one. The coordinator sends no credentials, but the user's remote may have
/// some, or use another protocol.
pub async fn source(folder: Option<&Path>, address: &str) -> String {
    let remotes = ["config", "--get-regexp", r"^remote\..*\.url$"];
    let listed = match is_address(address) {
        true => git(folder, &remotes).await.unwrap_or_default(),
        false => String::new(),
    };
    let wanted = normalised(address);
    let own = listed.lines().find_map(|line| {
        let (key, url) = line.split_once(' ')?;
        let name = key.strip_prefix("remote.")?.strip_suffix(".url")?;
        (is_address(url) && normalised(url) == wanted).then_some(name)
    });
    own.unwrap_or(address).to_owned()
}

/// Whether the current repository has this commit.
pub async fn has_commit(commit: &str) -> bool {
    git(None, &["cat-file", "-e", &format!("{commit}^{{commit}}")])
        .await
        .is_ok()
}

pub async fn within_repository() -> anyhow::Result<()> {
    match git(None, &["rev-parse", "--git-dir"]).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Usage(
            "the current folder is in no git repository; run this in a clone of the feature's repository"
                .into(),
        )
        .into()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clone_fetches_from_its_own_remote() {
        let folder = tempfile::tempdir().unwrap();
        let at = Some(folder.path());
        git(at, &["init", "--quiet"]).await.unwrap();
        let address = "https://h/team/todo.git";
        assert_eq!(source(at, address).await, address);
        for (name, url) in [("fork", "https://h/me/todo"), ("main", "git@h:team/todo.git")] {
            git(at, &["remote", "add", name, url]).await.unwrap();
        }
        assert_eq!(source(at, address).await, "main");
        for other in ["https://h/team/other.git", "/team/todo"] {
            assert_eq!(source(at, other).await, other);
        }
    }
}

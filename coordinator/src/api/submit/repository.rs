//! Completes a submission's repository, as the command line does on its machine.

use std::process::Stdio;
use std::time::Duration;

use ralph_shared::address::public;
use ralph_shared::repositories::Repositories;
use tokio::process::Command;

use super::checks::check_repo;
use crate::api::body::RepoRef;
use crate::api::http::problem::Problem;
use crate::api::memory;
use crate::domain::names::repository::{choose_base, is_address, normalised};

/// Time limit for a git server to list its branches.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Most characters of git's message in an error.
const WORDS: usize = 500;

/// A repository with all fields known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub address: String,
    pub id: String,
    pub base_ref: String,
    pub base_commit: String,
    pub branch: Option<String>,
}

/// Completes a repository: its identity from its address, its base from its server's current branches.
///
/// # Errors
/// When git cannot use the address, its server does not answer, or it has no such base.
pub async fn resolved(repo: RepoRef, allowed: &Repositories) -> Result<Repository, Problem> {
    check_repo(&repo, allowed)?;
    allowed
        .check_resolved(&repo.address)
        .await
        .map_err(|error| Problem::refused(format!("`repo.address`: {error}")))?;
    let id = repo.id.unwrap_or_else(|| normalised(&repo.address));
    memory::check_repo(&id)?;
    let (base_ref, base_commit) = match (repo.base_ref, repo.base_commit) {
        (Some(base_ref), Some(commit)) => (base_ref, commit),
        (base_ref, commit) => {
            let (base_ref, head) = base(&repo.address, base_ref.as_deref()).await?;
            (base_ref, commit.unwrap_or(head))
        }
    };
    Ok(Repository {
        address: repo.address,
        id,
        base_ref,
        base_commit,
        branch: repo.branch,
    })
}

/// The branch or tag to start from, and its current commit.
async fn base(address: &str, wanted: Option<&str>) -> Result<(String, String), Problem> {
    let shown = public(address);
    if !is_address(address) && !address.starts_with('/') {
        return Err(Problem::refused(format!(
            "`repo.address`: `{shown}` is neither an address such as git@host:team/todo.git nor an absolute path"
        )));
    }
    let refs = heads(address).await.map_err(|why| {
        Problem::refused(format!(
            "`repo.address`: the coordinator can't ask {shown} for its branches ({}); make it reachable from there, or send \
             `base_ref` and `base_commit`",
            why.replace(address, &shown)
        ))
    })?;
    choose_base(&refs, wanted).ok_or_else(|| {
        Problem::refused(match wanted {
            Some(base) => format!("`repo.base_ref`: there is no branch, tag or commit `{base}` in {shown}"),
            None => format!("`repo.base_ref`: {shown} has no commit, or no default branch; name a branch"),
        })
    })
}

/// The output of `git ls-remote --symref`. The address comes from the submitter, so git may only use
/// protocols that move data over a network or from a disk, and must not ask for a password.
async fn heads(address: &str) -> Result<String, String> {
    let mut command = Command::new("git");
    command
        .args(["ls-remote", "--symref", "--", address])
        .env("LC_ALL", "C")
        .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "false")
        .env("SSH_ASKPASS", "false")
        .env("SSH_ASKPASS_REQUIRE", "force")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .current_dir("/")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(TIME_LIMIT, command.output())
        .await
        .map_err(|_| format!("no answer within {} s", TIME_LIMIT.as_secs()))?
        .map_err(|error| format!("could not start git: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(words.trim().chars().take(WORDS).collect());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

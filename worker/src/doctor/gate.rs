//! A test of a repository's setup and gate, run as for a landing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{GitOrder, Repository, WorkspaceOrder};
use tokio::process::Command;

use super::findings::{Part, Status};
use crate::config::Machine;
use crate::session::{Redactor, own_secrets};
use crate::workspace::{CommandFailure, WorkspaceError, Workspaces};

/// Advice about commands that fail here.
const ADVICE: &str = "run the command in a fresh clone by hand: if it fails there too, fix it or the repository; if it works there, \
                      name the missing paths and variables with `sandbox_read` or `pass_env` of [workspace] (docs/agents.md, \"Your tools\")";

/// Clones the repository's current commit, prepares the clone and runs the gate in it.
pub async fn gate(machine: &Machine, repo: &Path, gate: &[String]) -> Part {
    let part = |status, found| Part::new("gate", status, found, None);
    match run(machine, repo, gate).await {
        Ok(None) => part(
            Status::Ok,
            format!("setup and gate succeed in a clone of {}", repo.display()),
        ),
        Ok(Some((what, failure))) => Part {
            details: failure.output.lines().map(str::to_owned).collect(),
            advice: Some(ADVICE.to_owned()),
            ..part(Status::Missing, format!("{what} failed: `{}`", failure.command))
        },
        Err(error) => part(Status::Missing, format!("the test failed to run: {error:#}")),
    }
}

/// The failed step, if one fails.
async fn run(
    machine: &Machine,
    repo: &Path,
    gate: &[String],
) -> anyhow::Result<Option<(&'static str, CommandFailure)>> {
    let repo = std::path::absolute(repo)?;
    let order = WorkspaceOrder::Git(GitOrder {
        repository: Repository {
            address: repo.display().to_string(),
        },
        feature_branch: "ralph-doctor".to_owned(),
        base: head(&repo).await?,
        landed: None,
        start: None,
        start_ref: None,
        cold: true,
        onto_head: false,
        gate: Vec::new(),
        attempt_ref: "refs/ralph/doctor-attempt".to_owned(),
        trailers: BTreeMap::new(),
    });
    let data = tempfile::tempdir().context("failed to make a folder for the clone")?;
    let redactor = Redactor::new(own_secrets().into_iter().chain(machine.sandbox.network.secret()));
    let workspaces = Workspaces::open_with(data.path(), machine.workspace_settings(redactor)).await?;
    let dispatch = DispatchId::new().0.to_string();
    let workspace = workspaces.prepare_throw_away(&dispatch, &order).await?;
    let failure = match workspace.set_up(workspaces.settings()).await {
        Err(WorkspaceError::Setup { command, output }) => Some(("setup", CommandFailure { command, output })),
        Err(error) => return Err(error.into()),
        Ok(()) => {
            let failure = workspace.try_gate(gate, workspaces.settings()).await?;
            failure.map(|failure| ("the gate", failure))
        }
    };
    workspace.remove().await?;
    Ok(failure)
}

/// The commit checked out there.
async fn head(repo: &Path) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(repo)
        .args(["rev-parse", "--verify", "HEAD^{commit}"]);
    let output = git
        .kill_on_drop(true)
        .output()
        .await
        .context("failed to run git")?;
    anyhow::ensure!(
        output.status.success(),
        "{} is no repository with a commit: {}",
        repo.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

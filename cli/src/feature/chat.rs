//! A person and an agent write a specification or a plan together, at the person's terminal (SPEC 5).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ralph_domain::prompt::{ChatFeature, Templates, first_prompt};
use ralph_domain::text::document;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::git::{git, git_shown};
use crate::machine::programs::Programs;

/// Runs the chat and returns the agent's last document. `which` is `spec` or `plan`; `agent` is the
/// `--agent` of the running `up`, which RALPH_AGENT overrides.
///
/// # Errors
/// When the session fails, or the agent wrote no document.
pub async fn write(which: &str, feature: ChatFeature<'_>, agent: Option<&str>) -> anyhow::Result<String> {
    let worker = Programs::find()?.worker;
    let folder = tempfile::tempdir().context("failed to make a folder for the session")?;
    let instructions = folder.path().join("instructions.md");
    let output = folder.path().join("text.md");
    let prompt = first_prompt(&Templates::built_in(), which, feature);
    tokio::fs::write(&instructions, prompt)
        .await
        .context("failed to write the agent's instructions")?;
    eprintln!("the agent writes the {which} with you; its last version is stored when you leave (Ctrl+D)");
    // The chat handles Ctrl+C.
    let _ours = signal(SignalKind::interrupt())?;
    let project = project(&folder.path().join("project")).await?;
    let mut chat = Command::new(&worker);
    if let Some(agent) = agent.filter(|_| std::env::var_os("RALPH_AGENT").is_none()) {
        chat.env("RALPH_AGENT", agent);
    }
    let status = chat
        .arg("chat")
        .arg(project)
        .args(["--read-only", "--once"])
        .arg("--instructions")
        .arg(&instructions)
        .arg("--text-out")
        .arg(&output)
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("failed to start {}", worker.display()))?;
    let text = tokio::fs::read_to_string(&output).await.unwrap_or_default();
    match document::marked(&text) {
        Some(text) => Ok(text.to_owned()),
        None if !status.success() => bail!("the session ended with {status}; nothing was stored"),
        None => bail!("the agent wrote no {which} between <document> and </document>; nothing was stored"),
    }
}

/// The folder that the agent reads: a copy of the last commit of the current folder's repository; without a
/// repository, the folder itself.
///
/// The repository folder itself may hold private files, such as the `.ralph` of a running `up`, and a
/// sandbox can't exclude a part of a folder.
async fn project(copy: &Path) -> anyhow::Result<PathBuf> {
    let Ok(top) = git(None, &["rev-parse", "--show-toplevel"]).await else {
        return Ok(PathBuf::from("."));
    };
    eprintln!("the agent reads a copy of the last commit of {top}, and nothing that isn't committed");
    let to = copy
        .to_str()
        .context("the folder for the session has no plain name")?;
    git_shown(&[
        "clone",
        "--quiet",
        // Without this, git ignores the depth and hard-links files that the agent must not reach.
        "--no-local",
        "--depth=1",
        "--no-tags",
        "--config=core.hooksPath=/dev/null",
        // Keep large files as LFS pointers.
        "--config=filter.lfs.process=",
        "--config=filter.lfs.smudge=cat",
        "--config=filter.lfs.required=false",
        "--",
        &top,
        to,
    ])
    .await?;
    Ok(copy.to_owned())
}

//! A specification or a plan that a person writes together with an agent, at their terminal (SPEC 5).

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::git::git;
use super::up::Programs;
use crate::domain::document;
use crate::prompt::{Talked, Templates, talk};

/// Talks, and gives the last document that the agent wrote. `which` is `spec` or `plan`.
///
/// # Errors
/// When the session fails, or no document came of it.
pub async fn write(which: &str, feature: Talked<'_>) -> anyhow::Result<String> {
    let worker = Programs::find()?.worker;
    let folder = tempfile::tempdir().context("failed to make a folder for the session")?;
    let instructions = folder.path().join("instructions.md");
    let said = folder.path().join("said.md");
    let prompt = talk(&Templates::built_in(), which, feature);
    tokio::fs::write(&instructions, prompt)
        .await
        .context("failed to write the agent's instructions")?;
    eprintln!("the agent writes the {which} with you; what it wrote last is stored when you leave (Ctrl+D)");
    // Ctrl+C is the chat's.
    let _ours = signal(SignalKind::interrupt())?;
    let status = Command::new(&worker)
        .arg("chat")
        .arg(project().await)
        .arg("--read-only")
        .arg("--instructions")
        .arg(&instructions)
        .arg("--text-out")
        .arg(&said)
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("failed to start {}", worker.display()))?;
    let text = tokio::fs::read_to_string(&said).await.unwrap_or_default();
    match document::marked(&text) {
        Some(text) => Ok(text.to_owned()),
        None if !status.success() => bail!("the session ended with {status}; nothing was stored"),
        None => bail!("the agent wrote no {which} between <document> and </document>; nothing was stored"),
    }
}

/// The repository of the current folder, else that folder.
async fn project() -> PathBuf {
    match git(None, &["rev-parse", "--show-toplevel"]).await {
        Ok(top) => PathBuf::from(top.trim()),
        Err(_) => PathBuf::from("."),
    }
}

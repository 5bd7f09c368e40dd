//! A specification or a plan that a person writes together with an agent, at their terminal (SPEC 5).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ralph_domain::prompt::{ChatFeature, Templates, first_prompt};
use ralph_domain::text::document;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::git::{git, git_shown};
use crate::machine::programs::Programs;

/// Talks, and gives the last document that the agent wrote. `which` is `spec` or `plan`; `agent` is what `up` was given as `--agent`,
/// which RALPH_AGENT overrides.
///
/// # Errors
/// When the session fails, or no document came of it.
pub async fn write(which: &str, feature: ChatFeature<'_>, agent: Option<&str>) -> anyhow::Result<String> {
    let worker = Programs::find()?.worker;
    let folder = tempfile::tempdir().context("failed to make a folder for the session")?;
    let instructions = folder.path().join("instructions.md");
    let said = folder.path().join("said.md");
    let prompt = first_prompt(&Templates::built_in(), which, feature);
    tokio::fs::write(&instructions, prompt)
        .await
        .context("failed to write the agent's instructions")?;
    eprintln!("the agent writes the {which} with you; what it wrote last is stored when you leave (Ctrl+D)");
    // Ctrl+C is the chat's.
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

/// What the agent reads: the repository of the current folder as it was committed last, in a copy; else that folder.
///
/// In the folder itself lies what is nobody's business, `.ralph` of a running `up` for one; a sandbox can't leave a part out.
async fn project(copy: &Path) -> anyhow::Result<PathBuf> {
    let Ok(top) = git(None, &["rev-parse", "--show-toplevel"]).await else {
        return Ok(PathBuf::from("."));
    };
    eprintln!("it reads a copy of {top} as it was committed last, and nothing that isn't committed");
    let to = copy
        .to_str()
        .context("the folder for the session has no plain name")?;
    git_shown(&[
        "clone",
        "--quiet",
        // Without this the depth is not heeded, and files are linked that it must not reach.
        "--no-local",
        "--depth=1",
        "--no-tags",
        "--config=core.hooksPath=/dev/null",
        // Large files stay what git knows of them.
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

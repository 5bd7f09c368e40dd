//! The agent's environment variables.

use std::path::PathBuf;

use anyhow::Context as _;
use ralph_shared::kind::SessionKind;

/// The `RALPH_*` variables that the agent reads once, when it starts.
#[derive(Debug, Clone)]
pub(super) struct Environment {
    pub(super) task: Option<String>,
    pub(super) attempt: u32,
    pub(super) dispatch: Option<String>,
    pub(super) kind: Option<SessionKind>,
    pub(super) model: Option<String>,
    pub(super) effects_log: Option<PathBuf>,
    /// Directives for every session; they come before those of the description.
    pub(super) script: Option<String>,
}

impl Environment {
    /// Reads the variables; unset ones have the defaults of `directives.md`.
    pub(super) fn read() -> anyhow::Result<Self> {
        let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let attempt = get("RALPH_ATTEMPT")
            .map_or(Ok(1), |n| n.parse())
            .context("failed to read RALPH_ATTEMPT")?;
        let kind = get("RALPH_KIND").map(|kind| kind.parse()).transpose();
        Ok(Self {
            task: get("RALPH_TASK"),
            attempt,
            dispatch: get("RALPH_DISPATCH"),
            kind: kind.context("failed to read RALPH_KIND")?,
            model: get("RALPH_MODEL"),
            effects_log: std::env::var_os("RALPH_EFFECTS_LOG").map(PathBuf::from),
            script: get("RALPH_SCRIPT"),
        })
    }
}

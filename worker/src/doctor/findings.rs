//! What was found, as `--output json` prints it.

use ralph_shared::document;
use serde::Serialize;

use crate::session::Introduction;

/// All that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// What this document is, with the version of all kinds.
    pub schema: String,
    /// Whether work could be done: no part and no agent is missing.
    pub ok: bool,
    /// The worker's version.
    pub version: &'static str,
    /// What a worker needs besides agents.
    pub parts: Vec<Part>,
    /// Each configured agent.
    pub agents: Vec<AgentFinding>,
}

/// How it stands with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Work can be done, but somebody should know.
    Warning,
    /// Without it no work can be done.
    Missing,
}

/// Something that a worker needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub name: &'static str,
    /// How it stands with it.
    pub status: Status,
    /// What was found, or what is wrong.
    pub found: String,
    /// More about it, a line each.
    pub details: Vec<String>,
    /// What to do about it.
    pub advice: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentFinding {
    /// Its name in the configuration.
    pub name: String,
    /// The preset that it was configured by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<&'static str>,
    /// Its command line, quoted for a shell.
    pub command: String,
    /// What it is taken for where nobody names an agent; `None` where it has to be named.
    pub taken_for: Option<String>,
    /// How it stands with it.
    pub status: Status,
    /// From its start to a session that is ready, or to its failure. Seconds.
    pub seconds: f64,
    /// What it said of itself, as far as it came.
    pub introduction: Introduction,
    /// What went wrong.
    pub problem: Option<String>,
    /// What was odd and is no hindrance.
    pub notes: Vec<String>,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Findings {
    /// Sums up.
    pub fn new(parts: Vec<Part>, agents: Vec<AgentFinding>) -> Self {
        let mut all = parts
            .iter()
            .map(|part| part.status)
            .chain(agents.iter().map(|agent| agent.status));
        Self {
            schema: document::name("worker_findings"),
            ok: all.all(|status| status != Status::Missing),
            version: env!("CARGO_PKG_VERSION"),
            parts,
            agents,
        }
    }
}

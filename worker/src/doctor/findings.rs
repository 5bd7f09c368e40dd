//! The findings, as printed by `--output json`.

use ralph_shared::document;
use serde::Serialize;

use crate::session::Introduction;

#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Name and version of this document's schema.
    pub schema: String,
    /// Whether work is possible: no part and no agent is missing.
    pub ok: bool,
    pub version: &'static str,
    /// Requirements of a worker other than agents.
    pub parts: Vec<Part>,
    pub agents: Vec<AgentFinding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// In order.
    Ok,
    /// Work is possible, but somebody should know.
    Warning,
    /// Work is impossible without it.
    Missing,
}

/// A requirement of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub name: &'static str,
    pub status: Status,
    /// The finding or the problem.
    pub found: String,
    pub details: Vec<String>,
    pub advice: Option<String>,
}

impl Part {
    pub fn new(name: &'static str, status: Status, found: String, advice: Option<&str>) -> Self {
        Self {
            name,
            status,
            found,
            details: Vec::new(),
            advice: advice.map(str::to_owned),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentFinding {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<&'static str>,
    /// Its command line, quoted for a shell.
    pub command: String,
    /// The sessions that it gets without being named. `None` if it must be named.
    pub taken_for: Option<String>,
    pub status: Status,
    /// Time from its start to a ready session or a failure. Seconds.
    pub seconds: f64,
    /// Its introduction, as far as it came.
    pub introduction: Introduction,
    pub problem: Option<String>,
    /// Oddities that prevent nothing.
    pub notes: Vec<String>,
    pub advice: Option<String>,
}

impl Findings {
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

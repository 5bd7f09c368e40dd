//! What is known of a feature's gate on its base commit.

use std::fmt;

use ralph_domain::gate;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// What is known of the gate on the base commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// It passes there.
    Passed,
    /// It fails there: nothing lands before a person decides.
    Failed,
    /// Nobody knows yet: nothing lands before.
    Unknown,
    /// A person said that it may fail there, or took the check out.
    MayFail,
}

/// The gate of a feature's current or last run, on its base commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GateView {
    /// Its commands.
    pub commands: Vec<String>,
    pub base_commit: String,
    pub state: GateState,
    /// The task that tries it there, if there was need of one.
    pub task: Option<String>,
    /// The command that failed when it was tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_command: Option<String>,
    /// The end of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Trees on which it both passed and failed: such a gate says little.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flaky_trees: i64,
    /// Who tried it last, for how long, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub checked_at: Option<OffsetDateTime>,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

impl GateView {
    /// Whether a person has to decide about it.
    pub fn fails(&self) -> bool {
        self.state == GateState::Failed
    }
}

impl fmt::Display for GateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = gate::short(&self.base_commit);
        if self.flaky_trees > 0 {
            let trees = if self.flaky_trees == 1 { "tree" } else { "trees" };
            write!(f, "flaky: it passed and failed on {} {trees}; ", self.flaky_trees)?;
        }
        match self.state {
            GateState::Passed => write!(f, "the gate passes on the base commit {commit}"),
            GateState::Unknown => {
                write!(
                    f,
                    "the gate is to be tried on the base commit {commit} before anything lands"
                )
            }
            GateState::MayFail => write!(f, "the gate may fail on the base commit {commit}"),
            GateState::Failed => {
                let command = self.failed_command.as_deref().unwrap_or_default();
                let output = gate::end_of(self.output.as_deref().unwrap_or_default());
                write!(
                    f,
                    "the gate fails on the base commit {commit}: `{command}`\n{output}"
                )
            }
        }
    }
}

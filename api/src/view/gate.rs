//! State of a feature's gate on its base commit.

use std::fmt;

use ralph_domain::gate;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// State of the gate on the base commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// The gate passes.
    Passed,
    /// The gate fails: nothing lands before a person decides.
    Failed,
    /// The gate has not been checked yet: nothing lands before.
    Unknown,
    /// A person allowed the gate to fail, or removed the check.
    MayFail,
}

/// The gate of a feature's current or last run, on its base commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GateView {
    /// Commands of the gate.
    pub commands: Vec<String>,
    pub base_commit: String,
    pub state: GateState,
    /// The task that checks the gate on the base commit, if one was needed.
    pub task: Option<String>,
    /// The command that failed in the last check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_command: Option<String>,
    /// End of that command's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Trees on which the gate both passed and failed; such a gate is unreliable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flaky_trees: i64,
    /// The worker of the last check.
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
    /// Whether a person must decide because the gate fails.
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

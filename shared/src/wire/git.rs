//! Changes of branches that need no agent (DESIGN 6): the base is taken in, a landing is taken back, a feature is merged.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{GateStep, PassedTree};
use crate::ids::TaskId;

/// One such change, to be made by a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOperationOrder {
    pub operation: GitOperation,
    /// First line of the commit that it makes, if it makes one.
    pub subject: String,
    /// Its further text, without trailers.
    pub body: String,
    /// Commands that must succeed on exactly the commit that becomes a branch's head.
    pub gate: Vec<String>,
    /// How they run, as in [`super::IntegrateOrder::steps`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<GateStep>,
    /// Trees on which they did before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<PassedTree>,
}

/// What is done. Doing it again changes nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum GitOperation {
    /// Merges what a branch has by now into the feature's.
    Update {
        /// The branch, without `refs/heads/`.
        branch: String,
        /// The commit of it that conflicted, and that an agent brings in. Hex object id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        brings: Option<String>,
    },
    /// Takes a landed commit back by a new one on the feature's branch.
    Revert {
        /// The task that landed it.
        task: TaskId,
        /// The commit. Hex object id.
        commit: String,
        /// Tasks that are done again afterwards.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        redo: Vec<TaskId>,
    },
    /// Brings the feature's branch into another one.
    Merge {
        /// That one, without `refs/heads/`.
        branch: String,
        how: MergeHow,
        /// The commit that had landed last when it was asked for; once it is done, of those that it brought. Hex object
        /// id.
        head: String,
        /// The feature's own end asked for it, not a person.
        #[serde(default)]
        at_end: bool,
    },
    /// Tries the gate on the commit that a feature begins at; no branch changes.
    Check {
        /// The commit. Hex object id.
        commit: String,
        /// The commands.
        gate: Vec<String>,
        /// What made somebody doubt that it passes there, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<String>,
    },
}

/// How a finished feature comes into the branch that it began from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeHow {
    /// That branch moves to the feature's head; it must not have moved on its own.
    Ff,
    /// By a merge commit.
    Merge,
    /// As one commit.
    Squash,
    /// By the worker's own command, `[workspace] on_complete`: it opens a pull request, say.
    Command,
}

impl MergeHow {
    /// The word on command lines, in the database and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ff => "ff",
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Command => "command",
        }
    }
}

impl fmt::Display for MergeHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no way to merge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to merge: say ff, merge, squash or command")]
pub struct NoMerge(String);

impl FromStr for MergeHow {
    type Err = NoMerge;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Ff, Self::Merge, Self::Squash, Self::Command]
            .into_iter()
            .find(|how| how.as_str() == text)
            .ok_or_else(|| NoMerge(text.to_owned()))
    }
}

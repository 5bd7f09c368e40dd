//! Changes of branches without an agent (DESIGN 6): updates from the base, reverts of landings, and merges of
//! features.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{GateStep, PassedTree};
use crate::ids::TaskId;

/// A change for a worker to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOperationOrder {
    pub operation: GitOperation,
    /// First line of the commit that it makes, if it makes one.
    pub subject: String,
    /// The further text of that commit, without trailers.
    pub body: String,
    /// Commands that must succeed on exactly the commit that becomes a branch's head.
    pub gate: Vec<String>,
    /// Settings of the commands, as in [`super::IntegrateOrder::steps`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<GateStep>,
    /// Trees on which they succeeded before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<PassedTree>,
}

/// The change. Repeating it changes nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum GitOperation {
    /// Merges a branch into the feature's.
    Update {
        /// The branch, without `refs/heads/`.
        branch: String,
        /// The conflicting commit of that branch, which an agent merges. Hex object id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        brings: Option<String>,
    },
    /// Reverts a landed commit by a new one on the feature's branch.
    Revert {
        /// The task that landed it.
        task: TaskId,
        /// The commit. Hex object id.
        commit: String,
        /// Tasks to do again afterwards.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        redo: Vec<TaskId>,
    },
    /// Merges the feature's branch into another one.
    Merge {
        /// The other branch, without `refs/heads/`.
        branch: String,
        how: MergeHow,
        /// The last landed commit at the time of the request; after the merge, the last one that it brought.
        /// Hex object id.
        head: String,
        /// Whether the feature's own end requested it, not a person.
        #[serde(default)]
        at_end: bool,
    },
    /// Tries the gate on the commit that a feature starts from; no branch changes.
    Check {
        /// The commit. Hex object id.
        commit: String,
        gate: Vec<String>,
        /// The reason to doubt that it passes there, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<String>,
    },
}

/// The way in which a finished feature is merged into the branch that it started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MergeHow {
    /// The branch moves to the feature's head; it must not have moved on its own.
    Ff,
    /// By a merge commit.
    Merge,
    /// As one commit.
    Squash,
    /// By the worker's own command, `[workspace] on_complete`, which may open a pull request.
    Command,
}

impl fmt::Display for MergeHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

/// A word that is not a way to merge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way to merge: use ff, merge, squash or command")]
pub struct NoMerge(String);

impl FromStr for MergeHow {
    type Err = NoMerge;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Ff, Self::Merge, Self::Squash, Self::Command]
            .into_iter()
            .find(|how| how.into_str() == text)
            .ok_or_else(|| NoMerge(text.to_owned()))
    }
}

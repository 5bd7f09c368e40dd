//! Commits that an agent made elsewhere than under its final files: on other branches, on no branch, in its
//! stash.

use serde::{Deserialize, Serialize};

/// The last of such commits, and its fate. They are no part of the attempt's own commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrphanRef {
    /// Its place in the agent's clone: `branch NAME`, `tag NAME`, `stash N`, `detached HEAD`, `work tree
    /// PATH`; lossily as UTF-8.
    pub what: String,
    /// The commit. Hex object id.
    pub commit: String,
    /// The ref (full name) beside the attempt's that it was pushed to, if it was.
    #[serde(default)]
    pub pushed_ref: Option<String>,
    /// The reason why it was not pushed, if it wasn't.
    #[serde(default)]
    pub error: Option<String>,
    /// Whether it was not pushed yet and stays with its worker, which tries again.
    #[serde(default)]
    pub waits: bool,
}

/// The suffix of the folder of orphan refs, after the name of the attempt's ref.
pub const ORPHANS_SUFFIX: &str = "-strays/";

/// The folder of refs for an attempt's orphan commits, beside its own ref.
#[must_use]
pub fn orphan_refs(attempt_ref: &str) -> String {
    format!("{attempt_ref}{ORPHANS_SUFFIX}")
}

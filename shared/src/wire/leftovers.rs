//! Files that a session without a repository left in its folder.

use serde::{Deserialize, Serialize};

/// Files that are on no branch. They stay on their worker's machine for some days, unless they are too large.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftoverFiles {
    /// Their folder, as an absolute path on the worker's machine; `None` when they are deleted.
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub days: u32,
    /// Total number of files.
    pub files: u64,
    /// Total size. Bytes.
    pub bytes: u64,
    /// The first files.
    #[serde(default)]
    pub named: Vec<LeftoverFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverFile {
    /// Its path in the folder, lossily as UTF-8.
    pub path: String,
    pub bytes: u64,
}

//! What a session without a repository left in its folder.

use serde::{Deserialize, Serialize};

/// Files that no branch holds. They stay for some days on the machine of their worker, unless they are too much.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftoverFiles {
    /// The folder where they are kept, from the root of the worker's machine; `None` when they are gone.
    #[serde(default)]
    pub path: Option<String>,
    /// For how many days.
    #[serde(default)]
    pub days: u32,
    /// How many files there are.
    pub files: u64,
    /// Their sizes together. Bytes.
    pub bytes: u64,
    /// The first of them.
    #[serde(default)]
    pub named: Vec<LeftoverFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverFile {
    /// Its path in the folder, lossily as UTF-8.
    pub path: String,
    /// Its size. Bytes.
    pub bytes: u64,
}

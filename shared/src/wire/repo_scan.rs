//! A worker's scan of the commit that a session starts from, before its agent starts: the repository's own
//! knowledge, and the existence of files that remembered entries are about (SPEC 6.5, 6.7).

use serde::{Deserialize, Serialize};

/// The folder of a repository in which people and sessions keep knowledge, a Markdown file an entry.
pub const KNOWLEDGE_FOLDER: &str = ".ralph/knowledge";

/// A value of [`RepoScanOrder::knowledge`]: the branch was never scanned. So its folder is reported in any
/// case, even if it is missing.
pub const NEVER_SCANNED: &str = "";

/// A request to scan a repository, and to report what the coordinator doesn't know yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepoScanOrder {
    /// The head of the feature's branch at the last scan. Before the first, the head of another feature,
    /// which may be no part of the branch, or not exist. Hex object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The tree of its [`KNOWLEDGE_FOLDER`], if it had one. Hex object id, or [`NEVER_SCANNED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<String>,
    /// Paths whose existence is unknown, or no longer certain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepoScan {
    /// The commit that was scanned. Hex object id.
    pub head: String,
    /// Requested paths that exist, and paths that were added since.
    #[serde(default)]
    pub present: Vec<String>,
    /// Requested paths that do not exist.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Paths that were deleted since; none if the branch never had that commit.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Paths that were renamed since.
    #[serde(default)]
    pub renamed: Vec<Rename>,
    /// The knowledge folder; `None` if it is as in the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<KnowledgeFolder>,
}

impl RepoScan {
    /// Whether the sender of the order knows all of it.
    pub fn is_known(&self, order: &RepoScanOrder) -> bool {
        order.since.as_ref() == Some(&self.head) && order.paths.is_empty() && self.knowledge.is_none()
    }
}

/// A renamed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rename {
    pub from: String,
    pub to: String,
}

/// A repository's own knowledge.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KnowledgeFolder {
    /// Its tree; `None` without such a folder. Hex object id.
    pub tree: Option<String>,
    /// Its files, by name.
    pub files: Vec<KnowledgeText>,
    /// Number of files that are left out, since they are too large or too many.
    #[serde(default)]
    pub left_out: u32,
}

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnowledgeText {
    /// Its name within the folder.
    pub name: String,
    pub text: String,
    /// Whether the feature's base has the same content: then people brought it there. Otherwise a task may
    /// have landed it.
    #[serde(default)]
    pub at_base: bool,
}

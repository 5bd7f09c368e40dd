//! What a worker looks up in the commit that a session starts from, before its agent starts: the repository's own knowledge,
//! and which files that remembered entries are about are still there (SPEC 6.5, 6.7).

use serde::{Deserialize, Serialize};

/// The folder of a repository in which people and sessions keep knowledge, a Markdown file an entry.
pub const KNOWLEDGE_FOLDER: &str = ".ralph/knowledge";

/// As [`RepoScanOrder::knowledge`]: the branch was never scanned. So its folder is reported whatever it is, even when it is missing.
pub const NEVER_SCANNED: &str = "";

/// A request to scan a repository, and to report what the coordinator doesn't know yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepoScanOrder {
    /// The head of the feature's branch that was looked at last; before anybody did, that of another feature, which may be no part
    /// of the branch, or not be there. Hex object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The tree of its [`KNOWLEDGE_FOLDER`], if it had one. Hex object id, or [`NEVER_SCANNED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<String>,
    /// Paths of which nobody knows, or not for sure any more, whether they are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepoScan {
    /// The commit that was scanned. Hex object id.
    pub head: String,
    /// Asked paths that are there, and paths that were added since.
    #[serde(default)]
    pub present: Vec<String>,
    /// Asked paths that are not there.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Paths that were deleted since; none where the branch never had that commit.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Paths that were renamed since.
    #[serde(default)]
    pub renamed: Vec<Rename>,
    /// The knowledge folder; `None` when it is as the order says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<KnowledgeFolder>,
}

impl RepoScan {
    /// Whether whoever gave the order knows all of it.
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
    /// Its tree; `None` when there is no such folder. Hex object id.
    pub tree: Option<String>,
    /// Its files, by name.
    pub files: Vec<KnowledgeText>,
    /// Files that are too large or too many.
    #[serde(default)]
    pub left_out: u32,
}

/// One of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnowledgeText {
    /// Its name within the folder.
    pub name: String,
    pub text: String,
    /// Whether the feature's base has it just so: then people brought it there. Else a task may have landed it.
    #[serde(default)]
    pub at_base: bool,
}

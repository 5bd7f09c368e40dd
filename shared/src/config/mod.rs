//! `.ralph.toml` (SPEC 8): the definition of keys, and the tables that workers read. The commands list these
//! keys too.

mod agent;
mod key;
mod nearest;
mod workspace;

pub use agent::{
    AgentTable, CostWord, FilterTable, GitTable, McpTable, PermissionAnswer, PermissionTable, RuleTable,
};
pub use key::{Facts, Key, Reader, Unset, toml, words};
pub use nearest::{UntrustedFile, nearest, ours};
pub use workspace::{CacheTable, Workspace, WorkspaceTable};

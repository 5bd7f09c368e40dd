//! `.ralph.toml`, as far as a worker reads it. It is the worker's host's, never one in a clone that an agent can edit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ralph_shared::nearest::nearest;
use ralph_shared::trust::{self, Consents};
use serde::Deserialize;

/// Agents and commands run with the worker's rights, so they are nobody else's to name.
const NAME_IT: &str =
    "the configuration that was found can't be used (--config FILE names one that is, whoever owns it)";

/// The tables that a worker reads; the others are somebody else's.
#[derive(Debug, Default, Deserialize)]
pub struct File {
    pub agent: Option<AgentTable>,
    /// `[agents.NAME]`.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentTable>,
    #[serde(default)]
    pub workspace: WorkspaceTable,
    #[serde(default)]
    pub git: GitTable,
}

/// `[git]`: what the worker's git is told besides its user's own configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitTable {
    /// `[git.filters.NAME]`.
    #[serde(default)]
    pub filters: BTreeMap<String, FilterTable>,
}

/// A filter that attributes may ask for; its commands run with the worker's rights.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterTable {
    /// What a file goes through when it is stored.
    pub clean: Option<String>,
    /// What it goes through when it is checked out.
    pub smudge: Option<String>,
    /// One program for both, which speaks git's protocol for filters.
    pub process: Option<String>,
}

/// `[workspace]`: what is fetched, what prepares a checkout, what an agent may reach.
#[derive(Debug, Default, Deserialize)]
pub struct WorkspaceTable {
    /// Commands that prepare a checkout before an agent or a gate works in it.
    #[serde(default)]
    pub setup: Vec<String>,
    /// The user's own command that a finished feature is handed to (`--merge command`), run with the worker's rights.
    pub on_complete: Option<String>,
    /// Who commits: `Name <address>`.
    pub author: Option<String>,
    /// Whether what lands is signed off.
    #[serde(default)]
    pub sign_off: bool,
    /// How many commits of each branch a new mirror begins with.
    pub depth: Option<u32>,
    /// Which objects stay at the remote until they are needed.
    pub filter: Option<String>,
    /// `[workspace.caches]`.
    #[serde(default)]
    pub caches: BTreeMap<String, CacheTable>,
    /// Names of ignored folders whose content later checkouts start with.
    pub warm: Option<Vec<String>>,
    /// Size up to which these are kept, together. MiB.
    pub warm_mb: Option<u64>,
    /// Size from which on a new file is told. MB; 0 is never.
    pub new_file_mb: Option<u64>,
    /// New files of an attempt from which on their number is told; 0 is never.
    pub new_files: Option<usize>,
    /// Names of folders whose new files are told.
    pub build_folders: Option<Vec<String>>,
    /// Disk that the data folder may take. MiB.
    pub disk_budget_mb: Option<u64>,
    /// Days for which it is kept what a session without a repository leaves.
    pub keep_files_days: Option<u32>,
    /// Names of the worker's variables that sessions, these commands and those of a gate get.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Folders of this machine that agents may work in themselves.
    #[serde(default)]
    pub dirs: Vec<PathBuf>,
    /// What confines agents.
    pub sandbox: Option<String>,
    /// What they may read besides.
    #[serde(default)]
    pub sandbox_read: Vec<PathBuf>,
    /// What they may write besides.
    #[serde(default)]
    pub sandbox_write: Vec<PathBuf>,
    /// What they reach of the network: `open`, `none`, or a proxy's address; `file:PATH` for one that stands in a file.
    pub sandbox_network: Option<String>,
    /// Memory of a session's processes together. MiB.
    pub session_memory_mb: Option<u64>,
    /// Processes and threads of a session.
    pub session_processes: Option<u32>,
    /// CPU time of each of its processes. Seconds.
    pub session_cpu_seconds: Option<u64>,
    /// Size of each file that it writes. MiB.
    pub session_file_mb: Option<u64>,
    /// What has to stay free of its disk. MiB.
    pub session_disk_reserve_mb: Option<u64>,
    /// Keys that nobody here knows; some are the coordinator's or the command line's.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, toml::Value>,
}

/// A folder that setup fills once for each state of the files that decide on it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// The folder in a checkout.
    pub path: PathBuf,
    /// Files in a checkout.
    pub key: Vec<PathBuf>,
    /// Commands that fill it.
    #[serde(default)]
    pub setup: Vec<String>,
}

/// `cost` of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostWord {
    /// By what it uses.
    Usage,
    /// Nothing by use: a subscription, or a model of one's own.
    None,
}

/// `[agent]` or `[agents.NAME]`.
#[derive(Debug, Default, Deserialize)]
pub struct AgentTable {
    /// The preset that says what the other keys don't.
    pub preset: Option<String>,
    /// Program and arguments, as a shell would split them; or a preset's name.
    pub command: Option<String>,
    /// Variables that the agent gets; `file:PATH` for a value that stands in a file.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of the worker's variables that it gets.
    pub pass_env: Option<Vec<String>>,
    /// Logins in the user's home, as `~/…`.
    pub files: Option<Vec<PathBuf>>,
    /// The mode that it works in.
    pub mode: Option<String>,
    /// Names of its models by tier, best first.
    #[serde(default)]
    pub models: BTreeMap<String, Vec<String>>,
    /// Whether it is offered to read and write files through the protocol.
    pub client_files: Option<bool>,
    /// Whether it is offered to run commands through the protocol.
    pub client_terminals: Option<bool>,
    /// Longest time from its start to a session that is ready, but for its first start. Seconds.
    pub start_seconds: Option<u64>,
    /// Whether the protocol's lines of its sessions are kept on this machine.
    pub protocol_log: Option<bool>,
    /// Whether it is offered the tools of its session over MCP.
    pub tools: Option<bool>,
    /// The account at a provider that it uses.
    pub account: Option<String>,
    /// How it is paid.
    pub cost: Option<CostWord>,
    /// What it is taken for.
    #[serde(flatten)]
    pub rules: RuleTable,
    /// `[[agent.permissions]]`.
    #[serde(default)]
    pub permissions: Vec<PermissionTable>,
    /// `[agent.mcp.NAME]`.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpTable>,
    /// Keys that nobody knows.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, toml::Value>,
}

/// What an agent of `[agents.NAME]` is taken for where nobody names one.
#[derive(Debug, Default, Deserialize)]
pub struct RuleTable {
    /// Kinds of session.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Pools of tasks.
    #[serde(default)]
    pub pools: Vec<String>,
    /// Tiers of models, or models.
    #[serde(default)]
    pub tiers: Vec<String>,
}

impl RuleTable {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.pools.is_empty() && self.tiers.is_empty()
    }
}

/// A rule of what an agent may do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionTable {
    /// Whether it allows.
    pub answer: PermissionAnswer,
    /// Kinds of tools, in the protocol's words; all when empty.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Patterns of paths in the workspace; all when empty.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAnswer {
    /// Yes.
    Allow,
    /// No.
    Reject,
    /// What a person says.
    Ask,
}

/// An MCP server: a `command`, or a `url`.
#[derive(Debug, Default, Deserialize)]
pub struct McpTable {
    /// Program and arguments, as a shell would split them.
    pub command: Option<String>,
    /// Its variables; `file:PATH` for a value that stands in a file.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its address.
    pub url: Option<String>,
    /// Headers of every request to it; `file:PATH` for a value that stands in a file.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether it speaks the older server-sent events.
    #[serde(default)]
    pub sse: bool,
}

impl File {
    /// Reads the given file, or the first `.ralph.toml` here or in a folder above; without one everything is default.
    ///
    /// # Errors
    /// When it can't be read, with its line; when one that nobody named is another user's, or a person never agreed to it.
    pub fn read(given: Option<&Path>) -> anyhow::Result<Self> {
        match given {
            Some(path) => Self::parse(path, &text(path)?),
            None => match find_nearest()? {
                Some(path) => Self::read_trusted(&path, &Consents::of_user()),
                None => Ok(Self::default()),
            },
        }
    }

    fn read_trusted(path: &Path, consents: &Consents) -> anyhow::Result<Self> {
        let text = text(path)?;
        consents.require(path, &text)?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        toml::from_str(text).with_context(|| format!("failed to read {}", path.display()))
    }
}

/// The first `.ralph.toml` here or in a folder above.
fn find_nearest() -> anyhow::Result<Option<PathBuf>> {
    match std::env::current_dir() {
        Ok(here) => nearest(&here, ".ralph.toml").context(NAME_IT),
        Err(_) => Ok(None),
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(trust::read(path)?)
}

/// Folders of which whoever may write one could say what this machine's configuration is: where it is looked for, and where it lies.
pub fn places(given: Option<&Path>) -> Vec<PathBuf> {
    let places: Vec<PathBuf> = match given {
        // A link's own folder counts as much as that of what it leads to.
        Some(path) => [std::path::absolute(path), path.canonicalize()]
            .into_iter()
            .flatten()
            .filter_map(|path| Some(path.parent()?.to_owned()))
            .collect(),
        // Each folder above that holds one is above this one.
        None => Vec::from_iter(std::env::current_dir()),
    };
    places
        .into_iter()
        .filter_map(|place| place.canonicalize().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_found_is_obeyed_once_a_person_agreed_to_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".ralph.toml");
        let consents = Consents::in_folder(folder.path().join("consents"));
        let text = "[agent]\ncommand = \"x\"\n";
        std::fs::write(&path, text).unwrap();
        let error = File::read_trusted(&path, &consents).unwrap_err().to_string();
        assert!(
            error.contains("config trust") && error.contains("RALPH_CONFIG"),
            "{error}"
        );
        assert!(File::read(Some(&path)).is_ok(), "a person named it");
        consents.grant(&path, text).unwrap();
        let read = File::read_trusted(&path, &consents).unwrap();
        assert_eq!(read.agent.unwrap().command.as_deref(), Some("x"));
    }

    #[test]
    fn a_file_that_is_named_is_looked_for_where_it_lies_and_where_its_link_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("a/ralph.toml"), "").unwrap();
        std::os::unix::fs::symlink(root.join("a/ralph.toml"), root.join("b/link")).unwrap();
        assert_eq!(
            places(Some(&root.join("b/link"))),
            [root.join("b"), root.join("a")]
        );
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(places(None), [here]);
    }
}

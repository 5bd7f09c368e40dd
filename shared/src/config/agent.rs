//! `[agent]`, `[agents.NAME]` and `[git]`: what runs on a worker's machine with its rights.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::key::{toml, words};
use crate::config_table;

config_table! {
    /// `[agent]` or `[agents.NAME]`.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    ["agent", Worker]
    pub struct AgentTable {
        /// The preset that says what the keys below don't: claude, codex, gemini, opencode, …
        preset: Option<String> = toml("'claude'"),
        /// Program and arguments of the agent, split as a shell would; or a preset's name
        command: Option<String> = words("the preset's").var("RALPH_AGENT"),
        /// Variables that the agent gets; file:PATH for a value that stands in a file
        env: BTreeMap<String, String> = toml("{}").secret(),
        /// Names of the worker's variables that it gets
        pass_env: Option<Vec<String>> = words("the preset's").var("RALPH_PASS_ENV"),
        /// Logins of the user's home that are copied in and, refreshed, back
        files: Option<Vec<PathBuf>> = words("the preset's"),
        /// The mode that the agent works in
        mode: Option<String> = words("the preset's, else the agent's own"),
        /// Names of the agent's models by tier, best first: opus = ['gpt-5']; else what the coordinator sends, and the preset knows
        models: BTreeMap<String, Vec<String>> = toml("{}"),
        /// Whether the agent is offered to read and write files through the protocol
        client_files: Option<bool> = words("the preset's, else true"),
        /// Whether the agent is offered to run commands through the protocol
        client_terminals: Option<bool> = words("the preset's, else true"),
        /// How long the agent may take until a session is ready; three times that for its first start
        start_seconds: Option<u64> = toml("120"),
        /// Whether the protocol's lines of its sessions are kept on the worker
        protocol_log: Option<bool> = toml("false").var("RALPH_PROTOCOL_LOG"),
        /// Whether the agent is offered the tools of its session over MCP
        tools: Option<bool> = toml("true"),
        /// The account at a provider that the agent uses: who uses the same waits when it is over its rate
        account: Option<String> = words("the agent's name"),
        /// How it is paid: usage, or none for a subscription or a model of one's own, of which limits of cost hold nothing
        cost: Option<CostWord> = toml("'usage'"),
        /// Rules of what the agent may do, by kind of tool and path
        permissions: Vec<PermissionTable> = toml("[]"),
        /// MCP servers that the agent gets
        mcp: BTreeMap<String, McpTable> = toml("{}").secret(),
        .. {
            /// What it is taken for.
            #[serde(flatten)]
            pub rules: RuleTable,
            /// Keys that nobody knows.
            #[serde(flatten)]
            pub unknown: BTreeMap<String, toml::Value>,
        }
    }
}

config_table! {
    /// What an agent of `[agents.NAME]` is taken for where nobody names one.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    ["agents.NAME", Worker]
    pub struct RuleTable {
        /// Kinds of session that the agent is taken for where nobody names one: spec, plan, build, work, verify, review, distill
        kinds: Vec<String> = toml("[]"),
        /// Pools whose tasks it is taken for then
        pools: Vec<String> = toml("[]"),
        /// Tiers of models that it is taken for then; kinds go before pools, these before tiers
        tiers: Vec<String> = toml("[]"),
    }
}

impl RuleTable {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.pools.is_empty() && self.tiers.is_empty()
    }
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

config_table! {
    /// `[git]`: what the worker's git is told besides its user's own configuration.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    ["git", Worker]
    pub struct GitTable {
        /// Filters that attributes may ask for: filters.NAME = { clean = 'CMD', smudge = 'CMD' } or { process = 'CMD' }, run with the worker's rights
        filters: BTreeMap<String, FilterTable> = toml("{}"),
    }
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

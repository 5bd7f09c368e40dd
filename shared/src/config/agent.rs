//! `[agent]`, `[agents.NAME]` and `[git]`: programs that run on a worker's machine with its rights.

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
        /// The preset for keys that are missing below: claude, codex, gemini, opencode, …
        preset: Option<String> = toml("'claude'"),
        /// Program and arguments of the agent, split as a shell would; or a preset's name
        command: Option<String> = words("the preset's").var("RALPH_AGENT"),
        /// Variables that the agent gets; file:PATH reads the value from a file
        env: BTreeMap<String, String> = toml("{}").secret(),
        /// Names of the worker's variables that the agent gets
        pass_env: Option<Vec<String>> = words("the preset's").var("RALPH_PASS_ENV"),
        /// Login files of the user's home that are copied in and, when refreshed, back
        files: Option<Vec<PathBuf>> = words("the preset's"),
        /// The mode of the agent
        mode: Option<String> = words("the preset's, else the agent's own"),
        /// Names of the agent's models by tier, best first: opus = ['gpt-5']; else the names from the
        /// coordinator and the preset
        models: BTreeMap<String, Vec<String>> = toml("{}"),
        /// Whether the worker offers the agent to read and write files through the protocol
        client_files: Option<bool> = words("the preset's, else true"),
        /// Whether the worker offers the agent to run commands through the protocol
        client_terminals: Option<bool> = words("the preset's, else true"),
        /// Longest time until a session is ready; three times that for the agent's first start
        start_seconds: Option<u64> = toml("120"),
        /// Whether the worker keeps the protocol's lines of the agent's sessions
        protocol_log: Option<bool> = toml("false").var("RALPH_PROTOCOL_LOG"),
        /// Whether the worker offers the agent the tools of its session over MCP
        tools: Option<bool> = toml("true"),
        /// The account at a provider that the agent uses; all agents with this account wait when it is over
        /// its rate
        account: Option<String> = words("the agent's name"),
        /// How the agent is paid: usage, or none for a subscription or a model of your own, which limits of
        /// cost do not bound
        cost: Option<CostWord> = toml("'usage'"),
        /// Rules for what the agent may do, by kind of tool and path
        permissions: Vec<PermissionTable> = toml("[]"),
        /// MCP servers that the agent gets
        mcp: BTreeMap<String, McpTable> = toml("{}").secret(),
        .. {
            /// The tasks that the agent gets by default.
            #[serde(flatten)]
            pub rules: RuleTable,
            /// Unknown keys.
            #[serde(flatten)]
            pub unknown: BTreeMap<String, toml::Value>,
        }
    }
}

config_table! {
    /// The tasks that an agent of `[agents.NAME]` gets when nobody names an agent.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    ["agents.NAME", Worker]
    pub struct RuleTable {
        /// Kinds of session that the agent gets when nobody names an agent: spec, plan, build, work, verify,
        /// review, distill
        kinds: Vec<String> = toml("[]"),
        /// Pools whose tasks the agent gets then
        pools: Vec<String> = toml("[]"),
        /// Tiers of models that the agent gets then; kinds precede pools, and pools precede tiers
        tiers: Vec<String> = toml("[]"),
    }
}

impl RuleTable {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.pools.is_empty() && self.tiers.is_empty()
    }
}

/// `cost` of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostWord {
    /// By usage.
    Usage,
    /// Not by usage: a subscription, or a model of one's own.
    None,
}

/// A rule for what an agent may do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionTable {
    pub answer: PermissionAnswer,
    /// Kinds of tools, in the protocol's words; all when empty.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Patterns of paths in the workspace; all when empty.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// The answer of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAnswer {
    Allow,
    Reject,
    /// A person decides.
    Ask,
}

/// An MCP server: a `command`, or a `url`.
#[derive(Debug, Default, Deserialize)]
pub struct McpTable {
    /// Program and arguments, as a shell would split them.
    pub command: Option<String>,
    /// Its variables; `file:PATH` reads the value from a file.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub url: Option<String>,
    /// Headers of every request to it; `file:PATH` reads the value from a file.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether it speaks the older server-sent events.
    #[serde(default)]
    pub sse: bool,
}

config_table! {
    /// `[git]`: configuration of the worker's git besides its user's own.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    ["git", Worker]
    pub struct GitTable {
        /// Filters that attributes may request: filters.NAME = { clean = 'CMD', smudge = 'CMD' } or { process
        /// = 'CMD' }, run with the worker's rights
        filters: BTreeMap<String, FilterTable> = toml("{}"),
    }
}

/// A filter that attributes may request; its commands run with the worker's rights.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterTable {
    /// The command for a file that is stored.
    pub clean: Option<String>,
    /// The command for a file that is checked out.
    pub smudge: Option<String>,
    /// One program for both, which speaks git's protocol for filters.
    pub process: Option<String>,
}

//! Input and result of a session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{McpServer, Meta};
use ralph_shared::agents::presets::Preset;
use ralph_shared::wire::{Access, AgentInfo, DEFAULT_AGENT, Ended, ModelChoice, SessionLimits, Usage};

use crate::instance::session_permits::SessionPermit;
use crate::sandbox::Sandbox;
use crate::session::client::permissions::Rule;
use crate::session::limits::allowance::Allowance;
use crate::session::limits::price::Tariff;
use crate::session::people::People;
use crate::session::process::logins::LoginFile;
use crate::session::redaction::secrets::secret_values;
use crate::session::tool_sigils::ToolSigils;

/// An agent of the worker's configuration (SPEC 8).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentCommand {
    pub name: String,
    pub preset: Option<&'static Preset>,
    /// Its account at a provider. All users of the account wait when the provider limits its rate (SPEC 7.3).
    pub account: String,
    /// Program and arguments. Never empty.
    pub argv: Vec<String>,
    /// Final values of variables beyond the allow list.
    pub env: BTreeMap<String, String>,
    /// Names of the worker's own variables to pass on if they are set.
    pub pass_env: Vec<String>,
    /// Login files to copy into its `HOME`, and back if it refreshed them.
    pub files: Vec<LoginFile>,
    /// Mode to work in, by id or name. `None` means its own default.
    pub mode: Option<String>,
    /// Whether it runs on a subscription: its sessions cost nothing.
    pub subscription: bool,
    /// Configured model names by tier, best first.
    pub models: BTreeMap<String, Vec<String>>,
    /// Optional protocol methods offered to it.
    pub offered: ClientMethods,
    /// Longest time from start to a session ready for its prompt, except for the first start. `None` means
    /// [`START_LIMIT`].
    pub start_limit: Option<Duration>,
    /// Its permission rules, below the session's access. The first matching rule decides.
    pub permissions: Vec<Rule>,
    /// MCP servers for it, as far as it supports them.
    pub mcp_servers: Vec<McpServer>,
    /// Values given to it or its MCP servers as secrets, whatever their names.
    pub secrets: Vec<String>,
    /// Whether to log its sessions' protocol lines on this machine.
    pub protocol_log: bool,
    /// Whether it is offered its session's tools over MCP.
    pub tools: bool,
}

/// Default for the longest time from an agent's start to a session that is ready for its prompt.
pub const START_LIMIT: Duration = Duration::from_secs(120);

/// Optional client methods of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientMethods {
    pub files: bool,
    pub terminals: bool,
}

impl Default for ClientMethods {
    fn default() -> Self {
        Self {
            files: true,
            terminals: true,
        }
    }
}

impl AgentCommand {
    /// The table of `.ralph.toml` for this agent.
    pub fn table(&self) -> String {
        if self.name == DEFAULT_AGENT {
            "[agent]".to_owned()
        } else {
            format!("[agents.{}]", self.name)
        }
    }

    /// How to log in, if its preset finds no login on this machine: neither a variable nor a file.
    pub fn log_in(&self) -> Option<String> {
        let is_set = |name: &str| {
            self.env.contains_key(name)
                || self.pass_env.iter().any(|passed| passed == name)
                    && std::env::var_os(name).is_some_and(|value| !value.is_empty())
        };
        let preset = self.preset?;
        let files = self.files.iter().map(|file| file.original.clone());
        (!preset.has_login(is_set, files)).then(|| format!("{}: {}", preset.title, preset.login))
    }

    /// Model names to look for, best first. Configured names go before the preset's, and the worker's before
    /// the coordinator's.
    pub fn model_names<'a>(&'a self, choice: &'a ModelChoice) -> Vec<&'a str> {
        let own = self.models.get(&choice.tier).into_iter().flatten();
        let preset = self
            .preset
            .map_or(&[][..], |preset| preset.models_of(&choice.tier));
        let preset = preset.iter().copied();
        let sent = choice.names.iter().chain([&choice.tier]).map(String::as_str);
        let mut names: Vec<&str> = own.map(String::as_str).collect();
        if choice.by_default {
            names.extend(preset.chain(sent));
        } else {
            names.extend(sent.chain(preset));
        }
        names
    }

    /// All values to redact from its sessions' output, except for those in its login files.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = secret_values(self.env.clone());
        secrets.extend(self.secrets.iter().cloned());
        secrets
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    pub session: String,
    /// Whether to open a new session if the agent can't resume this one.
    pub or_new: bool,
}

#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// The dispatch's full id. Every process of the session carries it as
    /// [`crate::session::process::leftovers::MARK`], so that detached processes are found at the end.
    pub dispatch: String,
    pub agent: AgentCommand,
    /// The workspace: the agent's working directory, and the only folder that file requests can access.
    /// Absolute.
    pub cwd: PathBuf,
    /// `HOME` of the agent, private to the slot.
    pub home: PathBuf,
    /// `TMPDIR` of the agent, private to the slot.
    pub tmp: PathBuf,
    /// A folder that contains only this session's files, if there is one. The worker moves the workspace
    /// within it.
    pub session_folder: Option<PathBuf>,
    /// An earlier session with the same `home` to resume.
    pub resume: Option<Resume>,
    pub prompt: String,
    /// Prompt for a second process if the first one exits in the middle of its turn and the agent can resume
    /// the session. `None`: such an exit ends the session.
    pub after_exit: Option<String>,
    /// `None` means the agent's own default.
    pub model: Option<ModelChoice>,
    pub access: Access,
    /// Sandbox of the agent and all its child processes.
    pub sandbox: Sandbox,
    /// More files and folders that it may read: the mirror from which its clone borrows objects.
    pub read: Vec<PathBuf>,
    pub limits: SessionLimits,
    /// How the session is paid for.
    pub tariff: Tariff,
    /// Usage, and share of the run.
    pub allowance: Arc<Allowance>,
    /// People who can be asked and can send messages, if any.
    pub people: Option<People>,
    /// Sigils from its tools, if it has Ralph's tools.
    pub tool_sigils: Option<Arc<ToolSigils>>,
    /// Its permit among the worker's sessions, if it has one.
    pub place: Option<Arc<SessionPermit>>,
    /// Path of the protocol log, if enabled.
    pub protocol_log: Option<PathBuf>,
    /// Variables that describe the work: `RALPH_ITERATION`, `RALPH_TOTAL`, `RALPH_ATTEMPT`, `RALPH_MODEL`, ….
    pub env: BTreeMap<String, String>,
}

/// Session variable with the parent of the agent's own spans (W3C Trace Context).
pub const TRACEPARENT: &str = "TRACEPARENT";

impl SessionSpec {
    /// Metadata of requests: the parent of the agent's spans, under the protocol's reserved name.
    pub(super) fn meta(&self) -> Option<Meta> {
        let traceparent = self.env.get(TRACEPARENT)?;
        Some(Meta::from_iter([(
            "traceparent".to_owned(),
            traceparent.clone().into(),
        )]))
    }
}

/// A session's end and its results, redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    pub ended: Ended,
    /// How long its provider asks to wait, if the provider refused it.
    pub retry_after: Option<Duration>,
    /// The agent's message text, joined; never thoughts, tool output or an echoed prompt (SPEC 4.1).
    pub text: String,
    /// Whether the session's output limit cut it.
    pub text_truncated: bool,
    /// Usage as far as the agent reports it.
    pub usage: Usage,
    pub tool_calls: u32,
    pub failed_tool_calls: u32,
    pub agent: AgentInfo,
    /// The last plan entries and tool titles, newest last (SPEC 4.3).
    pub attempted: Vec<String>,
    /// Output of the last tool call that failed.
    pub last_tool_error: Option<String>,
    /// The end of the agent's standard error.
    pub stderr_tail: String,
    /// Description of standard output that was no message.
    pub unread_output: Option<String>,
    /// Its questions for people that nobody could answer.
    pub questions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_model_name_goes_before_the_presets() {
        let check = |preset: &str, own: &[&str], by_default: bool, expected: &[&str]| {
            let mut agent = AgentCommand {
                preset: Preset::find(preset),
                ..AgentCommand::default()
            };
            if !own.is_empty() {
                let own = own.iter().map(|name| (*name).to_owned()).collect();
                agent.models.insert("opus".to_owned(), own);
            }
            let choice = ModelChoice {
                tier: "opus".to_owned(),
                names: vec!["sent".to_owned()],
                by_default,
            };
            assert_eq!(
                agent.model_names(&choice),
                expected,
                "{preset} {own:?} {by_default}"
            );
        };
        check("", &[], false, &["sent", "opus"]);
        check("", &[], true, &["sent", "opus"]);
        check("gemini", &[], false, &["sent", "opus", "-pro"]);
        check("gemini", &[], true, &["-pro", "sent", "opus"]);
        check("gemini", &["own"], true, &["own", "-pro", "sent", "opus"]);
        check("gemini", &["own"], false, &["own", "sent", "opus", "-pro"]);
    }
}

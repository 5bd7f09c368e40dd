//! What a session is given, and what it leaves.

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
    /// Its name among the worker's agents.
    pub name: String,
    /// The preset that it was configured by.
    pub preset: Option<&'static Preset>,
    /// The account at a provider that it uses: whatever uses it waits when that limits the rate (SPEC 7.3).
    pub account: String,
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Variables that it gets besides the allow list, with their final values.
    pub env: BTreeMap<String, String>,
    /// Names of the worker's own variables that it gets as well, where they are set.
    pub pass_env: Vec<String>,
    /// Logins that are copied into its `HOME`, and back when it refreshed them.
    pub files: Vec<LoginFile>,
    /// The mode that it is to work in, by id or name; its own default when `None`.
    pub mode: Option<String>,
    /// Whether it is used by a subscription: no session of it costs anything.
    pub subscription: bool,
    /// Names of its models by tier, best first, as the configuration gives them.
    pub models: BTreeMap<String, Vec<String>>,
    /// What of the protocol's optional methods it is offered.
    pub offered: ClientMethods,
    /// Longest time from its start to a session that is ready for its prompt, but for the first start; [`START_LIMIT`] when
    /// `None`.
    pub start_limit: Option<Duration>,
    /// What it may do besides what the session may write; of several rules the first that fits decides.
    pub permissions: Vec<Rule>,
    /// MCP servers that it is to use, as far as it can.
    pub mcp_servers: Vec<McpServer>,
    /// Values that were given to it or its MCP servers as secrets, whatever their names look like.
    pub secrets: Vec<String>,
    /// Whether the protocol's lines of its sessions are kept on this machine.
    pub protocol_log: bool,
    /// Whether it is offered the tools of its session over MCP.
    pub tools: bool,
}

/// Longest time from an agent's start to a session that is ready for its prompt, where the configuration says nothing.
pub const START_LIMIT: Duration = Duration::from_secs(120);

/// Methods of the protocol that a client may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientMethods {
    /// Reading and writing files.
    pub files: bool,
    /// Running commands.
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
    /// The table of `.ralph.toml` that configures it.
    pub fn table(&self) -> String {
        if self.name == DEFAULT_AGENT {
            "[agent]".to_owned()
        } else {
            format!("[agents.{}]", self.name)
        }
    }

    /// What to do where its preset finds no login on this machine: neither a variable nor a file.
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

    /// Names to look for among its models, best first. What somebody configured goes before what the preset knows, on the worker
    /// before on the coordinator.
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

    /// Everything that is to be taken out of what its sessions say, but for what stands in its logins.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = secret_values(self.env.clone());
        secrets.extend(self.secrets.iter().cloned());
        secrets
    }
}

/// An earlier session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The agent's id of it.
    pub session: String,
    /// Whether a new session will do where the agent can't resume it.
    pub or_new: bool,
}

#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// The dispatch's whole id. Every process of the session carries it as [`crate::session::process::leftovers::MARK`], so that even
    /// those that detach themselves are found at the end.
    pub dispatch: String,
    pub agent: AgentCommand,
    /// The workspace: the agent's working directory, and the only place that file requests reach. Absolute.
    pub cwd: PathBuf,
    /// `HOME` of the agent, private to the slot.
    pub home: PathBuf,
    /// `TMPDIR` of the agent, private to the slot.
    pub tmp: PathBuf,
    /// A folder that holds nothing but what is this session's, if there is one: the worker moves the workspace within it.
    pub session_folder: Option<PathBuf>,
    /// An earlier session with the same `home`, which this one goes on with if the agent can.
    pub resume: Option<Resume>,
    pub prompt: String,
    /// What the agent is told, instead of the prompt, if its process ends in the middle of its turn and can resume the
    /// session once it is started again; such an end is the session's when `None`.
    pub after_exit: Option<String>,
    /// The model; the agent's own default when `None`.
    pub model: Option<ModelChoice>,
    /// What the session may write.
    pub access: Access,
    /// What confines the agent and everything that it starts.
    pub sandbox: Sandbox,
    /// Files and folders that it may read besides: the mirror that its clone borrows objects from.
    pub read: Vec<PathBuf>,
    /// When it is ended.
    pub limits: SessionLimits,
    /// How it is paid.
    pub tariff: Tariff,
    /// What it may use, and what it used.
    pub allowance: Arc<Allowance>,
    /// Who may be asked, and may say something; nobody when `None`.
    pub people: Option<People>,
    /// What its tools leave, if it has some of ours.
    pub tool_sigils: Option<Arc<ToolSigils>>,
    /// Its place among the worker's sessions, if it has one.
    pub place: Option<Arc<SessionPermit>>,
    /// Where the protocol's lines are written, if they are.
    pub protocol_log: Option<PathBuf>,
    /// Variables that describe the work: `RALPH_ITERATION`, `RALPH_TOTAL`, `RALPH_ATTEMPT`, `RALPH_MODEL`, ….
    pub env: BTreeMap<String, String>,
}

/// Variable of a session that says where spans of the agent's own belong (W3C Trace Context).
pub const TRACEPARENT: &str = "TRACEPARENT";

impl SessionSpec {
    /// What requests that begin something tell besides: where spans of it belong, by the name that the protocol reserves.
    pub(super) fn meta(&self) -> Option<Meta> {
        let traceparent = self.env.get(TRACEPARENT)?;
        Some(Meta::from_iter([(
            "traceparent".to_owned(),
            traceparent.clone().into(),
        )]))
    }
}

/// How a session ended and what it left behind, redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    pub ended: Ended,
    /// For how long its provider asks to be left alone, where that refused it.
    pub retry_after: Option<Duration>,
    /// The agent's message text, joined; never thoughts, tool output or an echoed prompt (SPEC 4.1).
    pub text: String,
    /// Whether the session's output limit cut it.
    pub text_truncated: bool,
    /// What it used, as far as the agent said so.
    pub usage: Usage,
    /// How many tools it called.
    pub tool_calls: u32,
    /// How many of these calls failed.
    pub failed_tool_calls: u32,
    /// What is known of the agent.
    pub agent: AgentInfo,
    /// The last plan entries and tool titles, newest last (SPEC 4.3).
    pub attempted: Vec<String>,
    /// Output of the last tool call that failed.
    pub last_tool_error: Option<String>,
    /// The agent's last lines on standard error.
    pub stderr_tail: String,
    /// What it wrote on standard output that was no message, in words.
    pub unread_output: Option<String>,
    /// What it asked of a person, and nobody was there.
    pub questions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_name_of_a_model_goes_before_the_presets() {
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

//! What a session is given, and what it leaves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agent_client_protocol::v1::schema::{McpServer, Meta};
use ralph_shared::wire::{Access, AgentInfo, Ended, ModelChoice, SessionLimits, Usage};

use super::logins::LoginFile;
use super::permissions::Rule;
use super::secrets::secret_values;
use crate::sandbox::Sandbox;

/// An agent of the worker's configuration (SPEC 8).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentCommand {
    /// Its name among the worker's agents.
    pub name: String,
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
    /// What it may do besides what the session may write; of several rules the first that fits decides.
    pub permissions: Vec<Rule>,
    /// MCP servers that it is to use, as far as it can.
    pub mcp_servers: Vec<McpServer>,
    /// Values that were given to it or its MCP servers as secrets, whatever their names look like.
    pub secrets: Vec<String>,
}

impl AgentCommand {
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

/// One session.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// The dispatch's whole id. Every process of the session carries it as [`super::leftovers::MARK`], so that even
    /// those that detach themselves are found at the end.
    pub dispatch: String,
    /// The agent.
    pub agent: AgentCommand,
    /// The workspace: the agent's working directory, and the only place that file requests reach. Absolute.
    pub cwd: PathBuf,
    /// `HOME` of the agent, private to the slot.
    pub home: PathBuf,
    /// `TMPDIR` of the agent, private to the slot.
    pub tmp: PathBuf,
    /// An earlier session with the same `home`, which this one goes on with if the agent can.
    pub resume: Option<Resume>,
    /// The prompt.
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
    /// How it ended.
    pub ended: Ended,
    /// The agent's message text, joined; never thoughts, tool output or an echoed prompt (SPEC 4.1).
    pub text: String,
    /// Whether the session's output limit cut it.
    pub text_truncated: bool,
    /// What it used, as far as the agent said so.
    pub usage: Usage,
    /// How many tools it called.
    pub tool_calls: u32,
    /// What is known of the agent.
    pub agent: AgentInfo,
    /// The last plan entries and tool titles, newest last (SPEC 4.3).
    pub attempted: Vec<String>,
    /// Output of the last tool call that failed.
    pub last_tool_error: Option<String>,
    /// The agent's last lines on standard error.
    pub stderr_tail: String,
    /// What it asked of a person, and nobody was there.
    pub questions: Vec<String>,
}

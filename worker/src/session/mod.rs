//! One ACP session: an agent process in a workspace, from its handshake to its last descendant's end (DESIGN 5).
//!
//! An agent is untrusted. Whatever it does, [`run()`] returns within its limits, leaves no process behind,
//! uses bounded memory and redacts the agent's output. Retries, sigils, git and the transcript's stream are
//! handled elsewhere.
//!
//! | module | content |
//! | --- | --- |
//! | [`spec`] | the input of a session and its result |
//! | [`mod@run`] | start, conversation, cleanup |
//! | [`script`] | the order of turns with an agent, and its end |
//! | [`tool_sigils`] | sigils from the tools of a session, for its report |
//! | [`people`] | questions from the agent to people, and their messages |
//! | [`interactive`], [`operator`] | a session with a person at a terminal |
//! | [`conversation`] | the event loop: one step, one event |
//! | [`protocol`] | JSON-RPC, handshake, capabilities, content |
//! | [`client`] | requests of the agent: permissions, files, terminals, questions |
//! | [`process`] | the agent's process, its logins, its leftovers |
//! | [`limits`] | when a session ends: time, turns, disk, cost and tokens |
//! | [`transcript`], [`redaction`] | the live transcript, without secrets |
//! | [`check`], [`resume`], [`unavailable`] | decisions: correct once, restart after a crash, whose fault a failure is |

mod check;
pub mod client;
mod conversation;
mod interactive;
mod limits;
mod operator;
mod people;
pub mod process;
pub mod protocol;
mod protocol_log;
mod redaction;
mod resume;
mod run;
mod script;
mod spec;
mod tool_sigils;
mod transcript;
mod unavailable;

pub use crate::session::client::elicitation::NOBODY;
pub use crate::session::client::pattern::Pattern;
pub use crate::session::client::permissions::{Rule, RuleAnswer};
pub use crate::session::limits::allowance::Allowance;
pub(crate) use crate::session::limits::disk;
pub use crate::session::limits::price::Tariff;
pub use crate::session::operator::{Operator, OperatorInput, Question, Turn};
pub use crate::session::people::{People, Reach, Reply, TurnOutcome};
pub use crate::session::process::agent::start_no_more;
pub use crate::session::process::leftovers::{MARK, kill_leftovers};
pub use crate::session::process::logins::{LOGIN_BYTES, LoginFile, login_secrets};
pub use crate::session::protocol::capabilities::Choice;
pub use crate::session::protocol::introduction::{Capabilities, Introduction, SessionOffer};
pub use crate::session::redaction::secrets::{own_secrets, secret_values};
pub use crate::session::redaction::tail::RedactedTail;
pub use crate::session::redaction::{REDACTED, RedactedStream, Redactor};
pub use crate::session::tool_sigils::{TOOL_SIGIL_BYTES, ToolSigils};
pub use check::Check;
pub use run::{Greeting, converse, greet, run, run_checked, words};
pub use spec::{AgentCommand, ClientMethods, Resume, START_LIMIT, SessionEnd, SessionSpec, TRACEPARENT};
pub use transcript::{BATCH_BYTES, BATCH_LINGER, TranscriptReceiver, TranscriptSender, channel};

//! One ACP session: an agent process in a workspace, from its handshake to its last descendant's end (SPEC 3.2, 3.4,
//! 3.6, 5, 7.2, 7.3; DESIGN 5).
//!
//! An agent is untrusted. Whatever it does, [`run()`] returns within its limits and leaves no process behind, its memory is
//! bounded, and what it says is redacted before it leaves. Retries, sigils, git and where the transcript is published
//! are others' business.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`spec`] | what a session is given, and what it leaves |
//! | [`mod@run`] | start, conversation, cleaning up |
//! | [`crate::session::protocol::handshake`] | from the agent's start to a session that is ready for its prompt |
//! | [`crate::session::limits::start_time`] | how long an agent may take until then |
//! | [`script`] | what is said to the agent in which order, and how it is ended |
//! | [`interactive`], [`operator`] | the same with a person who says something, turn after turn |
//! | [`conversation`] | the event loop: one step, one event |
//! | [`crate::session::process::agent`], [`crate::session::process::leftovers`] | the process, its environment, and everything that it leaves behind |
//! | [`crate::session::process::logins`], [`crate::session::process::refreshed_login`] | files that are copied into the private home, and back; what of them may differ then |
//! | [`crate::session::protocol::lines`], [`crate::session::protocol::peer`] | lines and JSON-RPC messages |
//! | [`crate::session::transcript::record`], [`crate::session::protocol::content`], [`crate::session::transcript::tools`], [`crate::session::limits::usage`] | what updates add up to; what they hold, as text; tool calls; tokens and cost |
//! | [`crate::session::protocol::introduction`], [`crate::session::protocol::capabilities`] | what the agent says of itself; choosing a model and a mode |
//! | [`crate::session::client::requests`], [`crate::session::client::files`], [`crate::session::client::terminal`], [`crate::session::process::tail`], [`crate::session::client::permissions`], [`crate::session::client::pattern`] | what the agent asks for, and what it may |
//! | [`crate::session::limits::disk`] | whether a session fills the disk |
//! | [`resume`] | whether an agent that ended in the middle of its turn is started again |
//! | [`check`] | what the agent said is looked at before the session ends |
//! | [`crate::session::limits::allowance`], [`crate::session::limits::price`] | what it used, and what it may use of its run's cost and tokens; what it costs |
//! | [`limits`], [`unavailable`] | pure decisions: when to end, whose fault it is |
//! | [`transcript`], [`redaction`], [`crate::session::redaction::tail`], [`crate::session::redaction::secrets`] | what is shown while it runs, without secrets |

mod check;
pub mod client;
mod conversation;
mod interactive;
mod limits;
mod operator;
pub mod process;
pub mod protocol;
mod redaction;
mod resume;
mod run;
mod script;
mod spec;
mod transcript;
mod unavailable;

pub use crate::session::client::pattern::Pattern;
pub use crate::session::client::permissions::Rule;
pub use crate::session::limits::allowance::Allowance;
pub use crate::session::limits::price::Tariff;
pub use crate::session::operator::{Person, Question, Said, Turn};
pub use crate::session::process::agent::start_no_more;
pub use crate::session::process::leftovers::{MARK, kill_leftovers};
pub use crate::session::process::logins::{LOGIN_BYTES, LoginFile, login_secrets};
pub use crate::session::protocol::capabilities::Choice;
pub use crate::session::protocol::introduction::{Capabilities, Introduction, SessionOffer};
pub use crate::session::redaction::secrets::{own_secrets, secret_values};
pub use crate::session::redaction::tail::RedactedTail;
pub use crate::session::redaction::{REDACTED, RedactedStream, Redactor};
pub use check::Check;
pub use run::{Greeting, converse, greet, run, run_checked, words};
pub use spec::{AgentCommand, ClientMethods, Resume, START_LIMIT, SessionEnd, SessionSpec, TRACEPARENT};
pub use transcript::{BATCH_BYTES, BATCH_LINGER, TranscriptReceiver, TranscriptSender, channel};

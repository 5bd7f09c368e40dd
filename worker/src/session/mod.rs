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
//! | [`handshake`] | from the agent's start to a session that is ready for its prompt |
//! | [`start_time`] | how long an agent may take until then |
//! | [`story`] | what is said to the agent in which order, and how it is ended |
//! | [`talk`], [`person`] | the same with a person who says something, turn after turn |
//! | [`conversation`] | the event loop: one step, one event |
//! | [`agent`], [`leftovers`] | the process, its environment, and everything that it leaves behind |
//! | [`logins`], [`refreshed`] | files that are copied into the private home, and back; what of them may differ then |
//! | [`lines`], [`peer`] | lines and JSON-RPC messages |
//! | [`record`], [`content`], [`tools`], [`usage`] | what updates add up to; what they hold, as text; tool calls; tokens and cost |
//! | [`introduction`], [`offer`] | what the agent says of itself; choosing a model and a mode |
//! | [`requests`], [`files`], [`terminal`], [`tail`], [`permissions`], [`pattern`] | what the agent asks for, and what it may |
//! | [`disk`] | whether a session fills the disk |
//! | [`resume`] | whether an agent that ended in the middle of its turn is started again |
//! | [`check`] | what the agent said is looked at before the session ends |
//! | [`allowance`], [`tariff`] | what it used, and what it may use of its run's cost and tokens; what it costs |
//! | [`limits`], [`door`] | pure decisions: when to end, whose fault it is |
//! | [`transcript`], [`redact`], [`redacted_tail`], [`secrets`] | what is shown while it runs, without secrets |

mod agent;
mod allowance;
mod check;
mod content;
mod conversation;
mod disk;
mod door;
mod elicitation;
mod files;
mod handshake;
mod introduction;
mod leftovers;
mod limits;
mod lines;
mod logins;
mod offer;
mod pattern;
mod peer;
mod permissions;
mod person;
mod record;
mod redact;
mod redacted_tail;
mod refreshed;
mod requests;
mod resume;
mod retry_after;
mod run;
mod secrets;
mod spec;
mod start_time;
mod story;
mod tail;
mod talk;
mod tariff;
mod terminal;
mod tools;
mod transcript;
mod usage;

pub use agent::start_no_more;
pub use allowance::Allowance;
pub use check::Check;
pub use introduction::{Capabilities, Introduction, SessionOffer};
pub use leftovers::{MARK, kill_leftovers};
pub use logins::{LOGIN_BYTES, LoginFile, login_secrets};
pub use offer::Choice;
pub use pattern::Pattern;
pub use permissions::Rule;
pub use person::{Person, Question, Said, Turn};
pub use redact::{REDACTED, RedactedStream, Redactor};
pub use redacted_tail::RedactedTail;
pub use run::{Greeting, converse, greet, run, run_checked, words};
pub use secrets::{own_secrets, secret_values};
pub use spec::{AgentCommand, ClientMethods, Resume, START_LIMIT, SessionEnd, SessionSpec, TRACEPARENT};
pub use tariff::Tariff;
pub use transcript::{BATCH_BYTES, BATCH_LINGER, TranscriptReceiver, TranscriptSender, channel};

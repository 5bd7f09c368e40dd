//! The scripted agent: a real ACP agent process whose behaviour is written in the task's description.
//!
//! The agent uses the same protocol crate as the worker, and writes raw bytes where it must misbehave. Its
//! script is a prompt's `## Assigned Task` section, up to the next line that begins with `## ` or `### `.
//! Text elsewhere (memory, journal, quotes) never runs. Without a directive, the agent says so and ends the
//! turn (in `verify` and `review` it passes). `session/cancel` ends the running action, and the response is
//! `cancelled`. The agent exits when its input ends.
//!
//! Beyond that it knows Ralph only through environment variables: `RALPH_TASK`, `RALPH_ATTEMPT`,
//! `RALPH_DISPATCH`, `RALPH_KIND`, `RALPH_MODEL`, `RALPH_EFFECTS_LOG` for `@effect`, and `RALPH_SCRIPT` with
//! directives for every session, so that descriptions may be ordinary text.
//!
#![doc = include_str!("directives.md")]

mod actions;
mod assignment;
mod connection;
mod environment;
mod options;
mod parse;
mod process;
mod script;
mod session;
mod stdin;
mod stdout;
mod turn;

pub use options::{Handshake, Options};
pub use parse::check_script;
pub use process::run;

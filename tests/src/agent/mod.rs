//! The scripted agent: a real ACP agent process whose behaviour stands in the task's description.
//!
//! It speaks the protocol through the same crate as the worker does, and writes bytes of its own where it must
//! misbehave. A prompt's `## Assigned Task` section, up to the next line that begins with `## ` or `### `, is its
//! script; what stands elsewhere (memory, journal, quoted text) never runs. Without a directive it says so and ends
//! the turn (in `verify` and `review` it passes). `session/cancel` ends what runs and is answered `cancelled`; when
//! its input ends, it exits.
//!
//! Other than that it knows no more of Ralph than the environment of its process says: `RALPH_TASK`,
//! `RALPH_ATTEMPT`, `RALPH_DISPATCH`, `RALPH_KIND`, `RALPH_MODEL`, `RALPH_EFFECTS_LOG` for `@effect`,
//! and `RALPH_SCRIPT`: directives of every session, so that a description may be one that people write.
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

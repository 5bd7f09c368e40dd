//! The command line (SPEC 9.1). Every command but `serve`, `up`, `migrate` and `doctor` talks to the HTTP API.
//!
//! Standard output carries results, standard error progress and messages. Exit codes are those of SPEC 3.5: 0, 1 for a
//! failure, 2 for wrong usage, and the outcome's code of a command that waited for a run.

mod args;
mod client;
mod context;
pub mod cost;
mod feature;
mod git;
mod hook;
mod inbox;
mod logs;
mod mcp;
mod memory;
pub mod reference;
mod run;
mod schedule;
mod screen;
pub mod server;
mod start;
mod status;
mod submit;
mod task;
pub mod terminal;
mod token;
mod wait;
mod worker;

pub use crate::cli::reference::completions::answer as answer_shell;
pub(crate) use client::escape as encoded;
pub use start::main;

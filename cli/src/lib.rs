//! The command line (SPEC 9.1): what asks a coordinator by its HTTP API. `ralph` is this alone; `ralph-coordinator` adds the commands
//! that start and check one.
//!
//! Standard output carries results, standard error progress and messages. Exit codes are those of SPEC 3.5: 0, 1 for a
//! failure, 2 for wrong usage, and the outcome's code of a command that waited for a run.

pub mod args;
pub mod client;
pub mod config;
mod cost;
mod feature;
pub mod git;
mod inbox;
mod logs;
pub mod machine;
mod mcp;
mod memory;
mod reference;
mod run;
mod schedule;
mod screen;
pub mod start;
mod status;
pub mod submit;
mod task;
pub mod terminal;
mod token;
mod wait;
mod worker;

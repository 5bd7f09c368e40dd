//! The command line client (SPEC 9.1): commands that call a coordinator through its HTTP API. `ralph` has
//! only these; `ralph-coordinator` adds commands that start and check a coordinator.
//!
//! Standard output carries results; standard error carries progress and messages. Exit codes follow SPEC
//! 3.5: 0, 1 for a failure, 2 for wrong usage, and the outcome's code after a wait for a run.

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

//! The program `ralph-coordinator`: the commands of `ralph-cli`, and commands that start and check a
//! coordinator.

mod args;
pub mod server;
mod start;

pub use args::command;
pub use start::main;

//! A worker's configuration: flags, environment, and the agents of this machine from `.ralph.toml` (SPEC 8).
//!
//! | module | content |
//! | --- | --- |
//! | [`args`] | flags and environment |
//! | [`file`](mod@file) | the worker's part of `.ralph.toml` |
//! | [`machine`] | this machine's agents and their sandbox, for every command that starts one |
//! | [`agent`] | one agent: its preset, overridden by its table |
//! | [`rules`] | which agent gets a session that names none |
//! | [`mcp`] | MCP servers for agents |
//! | [`stock`] | what to fetch and keep of repositories |
//! | [`load`] | a worker's complete configuration |

mod agent;
mod args;
mod file;
mod load;
mod machine;
mod mcp;
mod rules;
mod stock;
pub(crate) mod values;

pub use args::{MachineArgs, RunArgs};
pub use load::Config;
pub use machine::Machine;
pub use ralph_shared::wire::DEFAULT_AGENT;

//! What a worker is told: flags, environment, and the agents of this machine from `.ralph.toml` (SPEC 8).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | flags and environment |
//! | [`file`](mod@file) | `.ralph.toml`, as far as a worker reads it |
//! | [`machine`] | this machine's agents, and what confines them: for every command that starts one |
//! | [`agent`] | one of them: its preset, and what its table says instead |
//! | [`rules`] | what its agents are taken for where nobody names one |
//! | [`mcp`] | MCP servers that agents are told to use |
//! | [`stock`] | what is fetched and kept of repositories |
//! | [`load`] | a worker's whole configuration |

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

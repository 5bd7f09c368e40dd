//! Implementations of actions, by theme; [`dispatch`] maps actions to them.

mod client;
mod commands;
mod dispatch;
mod effects;
mod faults;
mod files;
mod mcp;
pub(super) mod orphan;
mod speech;
mod tool;

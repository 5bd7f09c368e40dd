//! What each action does, by theme; [`dispatch`] names who does which.

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

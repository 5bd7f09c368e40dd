//! What people touch: the HTTP API and the command line, against real servers and processes.
#![allow(clippy::unwrap_used, missing_docs)]

mod again;
mod api;
mod approval;
mod branches;
mod caller;
mod ceilings;
mod commands;
mod described;
mod diffs;
mod doors;
mod edits;
mod graph;
mod idea;
#[path = "../transitions/invariants.rs"]
mod invariants;
mod large;
mod logs;
mod machine;
mod memory;
mod notices;
mod once;
mod output;
mod pager;
mod questions;
mod rate;
mod restart;
mod retention;
mod stage;
mod talk;
mod tokens;
mod typed;
mod walk_through;
mod watchers;
mod watching;
mod weakened;

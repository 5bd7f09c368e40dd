//! Ralph's coordinator.
//!
//! `domain` (a crate of its own) decides and words prompts, `store` reads and writes, `flow` holds the steps of
//! a task. `services` keep the steps going, and `api` and `cli` are the interfaces. Read [`flow`] from top to
//! bottom first.

pub mod api;
pub mod bus;
pub mod cli;
pub mod config;
pub mod embedded;
pub mod embedder;
pub mod faults;
pub mod flow;
mod page;
pub mod services;
pub mod store;
pub mod tracer;
pub mod waiting;

pub use ralph_cli::client::http;
pub use ralph_domain::{self as domain, prompt};

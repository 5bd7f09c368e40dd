//! Ralph's coordinator.
//!
//! `domain` decides, `store` reads and writes, `prompt` words prompts, `flow` holds the steps of a task's
//! life, `services` keep the steps going, and `api` and `cli` are the interfaces. Read [`flow`] from top to
//! bottom first.

pub mod api;
pub mod bus;
pub mod cli;
pub mod config;
pub mod domain;
pub mod embedded;
pub mod embedder;
pub mod faults;
pub mod flow;
pub mod http;
mod page;
pub mod prompt;
pub mod services;
pub mod store;
pub mod tracer;
pub mod waiting;

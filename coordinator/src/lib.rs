//! Ralph's coordinator.
//!
//! `domain` decides, `store` reads and writes, `prompt` words, `flow` is the way of a task step by step, `services`
//! keep the steps going, `api` and `cli` are what people touch. A newcomer reads [`flow`] from top to bottom.

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
pub mod prompt;
pub mod services;
pub mod store;
pub mod tracer;
pub mod waiting;

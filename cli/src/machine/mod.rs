//! This machine: its configuration, the data folder of an `up`, and our programs.

pub mod config;
pub mod datadir;
pub mod finding;
pub(crate) mod init;
pub(crate) mod open;
pub mod programs;
pub mod serve_args;

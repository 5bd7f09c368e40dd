//! Rows about branches and refs: integrations, operations, gates, attempt refs.

pub mod gate;
pub mod integration;
pub mod operation;
pub mod retention;
pub mod train;

//! Ralph's tests crate.

pub mod agent;

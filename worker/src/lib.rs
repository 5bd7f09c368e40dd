//! Ralph's worker crate.

pub mod session;

//! Ralph's worker crate.

pub mod faults;
pub mod session;
pub mod workspace;

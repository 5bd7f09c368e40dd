//! Ralph's coordinator crate.

pub mod embedded;

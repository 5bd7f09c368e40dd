//! Ralph's coordinator crate.

//! Ralph's shared crate.

//! Ralph's tests crate.

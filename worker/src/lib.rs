//! Ralph's worker crate.

//! The commands `cost` and `budget`, and wording of amounts and estimates.

pub(crate) mod commands;
pub(crate) mod estimate;
pub(crate) mod format;

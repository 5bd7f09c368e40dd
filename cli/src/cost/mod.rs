//! Cost: the commands `cost` and `budget`, and the words for amounts and estimates.

pub(crate) mod commands;
pub(crate) mod estimate;
pub(crate) mod format;

//! TODO cli::cost

pub(crate) mod commands;
pub(crate) mod estimate;
pub(crate) mod format;

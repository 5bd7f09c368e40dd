//! TODO cli::reference

pub(crate) mod completions;
pub(crate) mod documents;
pub(crate) mod man;
pub(crate) mod schema;

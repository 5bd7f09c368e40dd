//! Commands that describe the program: manual pages, completions, JSON schemas.

pub(crate) mod completions;
pub mod document;
pub(crate) mod documents;
pub(crate) mod man;
pub(crate) mod schema;

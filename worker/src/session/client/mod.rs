//! An agent's requests to its client: permissions, files, terminals, questions.

pub(crate) mod elicitation;
pub(crate) mod files;
pub(crate) mod pattern;
pub(crate) mod permissions;
pub(crate) mod requests;
pub(crate) mod terminal;

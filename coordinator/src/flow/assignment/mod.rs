//! What a worker receives for a dispatch: its instructions and the prompt with the memory of that moment.

pub(crate) mod attempts;
pub mod context;
mod facts;
pub(crate) mod instructions;
pub mod preview;
pub(crate) mod prompt_log;

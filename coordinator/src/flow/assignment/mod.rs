//! The assignment of a dispatch: instructions for the worker, and the prompt with the memory of that moment.

pub(crate) mod attempts;
pub mod context;
mod facts;
pub(crate) mod instructions;
pub mod preview;
pub(crate) mod prompt_log;

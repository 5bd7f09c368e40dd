//! TODO flow::assignment

pub(crate) mod attempts;
pub mod context;
pub(crate) mod instructions;
pub mod preview;
pub(crate) mod prompt_log;

//! TODO store::git

pub mod attempt_refs;
pub mod gate;
pub mod integration;
pub mod operation;
pub mod retention;

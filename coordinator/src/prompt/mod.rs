//! What agents are told: wording in templates, values from the caller, nothing else (SPEC 6.1).

mod render;

pub use render::{Known, Prompt, render};

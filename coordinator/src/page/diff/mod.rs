//! Diffs on pages.

mod code;
mod unified;

pub use unified::{show, sum};

//! What changed, as a page shows it.

mod code;
mod unified;

pub use unified::{show, sum};

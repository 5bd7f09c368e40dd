//! The memory sections, each a function of its values and its budget.
//!
//! Each returns its text, or nothing without content or room. None exceeds its budget.

mod attempts;
mod budget;
mod distill;
mod journal;
mod knowledge;
mod learnings;
mod provenance;
mod session;
mod status;

pub(super) use crate::prompt::sections::budget::Written;
pub(super) use attempts::attempts;
pub(super) use distill::distill;
pub(super) use journal::journal;
pub(super) use knowledge::knowledge;
pub(super) use learnings::learnings;
pub(super) use session::session;
pub(super) use status::status;

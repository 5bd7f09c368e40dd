//! The sections that hold memory, each a function of its values and of the characters that it may take.
//!
//! Each returns what it wrote, or nothing when there is nothing to say or no room to say it. None ever exceeds its room.

mod attempts;
mod budget;
mod distill;
mod journal;
mod knowledge;
mod learnings;
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

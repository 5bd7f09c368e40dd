//! `--wait`: what goes on until a run's end, and its outcome's exit code (SPEC 3.5, 3.6).
//!
//! [`follow`] reads the progress and ends with the run; `bar` shows it at a terminal, `lines` elsewhere; `interrupt` is what
//! Ctrl+C offers; `ended` tells the outcome; `idle` what waits while no run is under way.

mod bar;
mod ended;
mod flags;
mod follow;
mod idle;
mod interrupt;
mod lines;

pub use flags::WaitFlags;
pub use follow::{begun, wait};
pub use idle::{feature_of, hint};
pub use interrupt::{Interrupts, Quit, unless_interrupted};

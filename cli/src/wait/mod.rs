//! `--wait`: waits for a run's end, and exits with its outcome's code (SPEC 3.5, 3.6).
//!
//! [`follow`] reads the progress and ends with the run; `bar` shows it at a terminal, `lines` elsewhere;
//! `interrupt` handles Ctrl+C; `ended` prints the outcome; `idle` suggests how to start work that waits
//! without a run.

mod bar;
mod ended;
mod flags;
mod follow;
mod idle;
mod interrupt;
mod lines;

pub use flags::WaitFlags;
pub use follow::{wait, wait_accepted};
pub use idle::{feature_of, hint};
pub use interrupt::{Interrupts, Quit, unless_interrupted};

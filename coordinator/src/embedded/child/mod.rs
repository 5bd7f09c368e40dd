//! Child processes that never outlive us.
//!
//! A child runs in its own process group, gets a death signal when this process ends in whatever way (Linux; elsewhere only
//! an orderly end reaches it), writes into a bounded log file whose tail goes into errors, and is stopped in steps that end
//! with a SIGKILL of the whole group. [`Process`] is one such child; [`Supervised`] starts it again when it ends by itself, unless
//! that is for good.

mod log;
mod process;
mod spawn;
mod spec;
mod supervise;
#[cfg(test)]
mod tests;

pub use process::{Process, SpawnError};
pub use spec::{ChildSpec, StopStep};
pub use supervise::{Backoff, Phase, Supervised};

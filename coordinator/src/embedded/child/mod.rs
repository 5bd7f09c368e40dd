//! Child processes that never outlive us.
//!
//! A child runs in its own process group and writes into a bounded log file whose tail goes into errors. It
//! gets a death signal when this process ends in any way (Linux; elsewhere only an orderly end reaches it).
//! It is stopped in steps that end with a SIGKILL of the whole group. [`Process`] is one such child.
//! [`Supervised`] starts it again when it ends by itself, unless it may finish.

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

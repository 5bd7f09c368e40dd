//! `up`: everything on one machine, as children of one process.
//!
//! ```text
//! up ─┬─ postgres      private, unless DATABASE_URL names another
//!     ├─ nats-server   private, unless NATS_URL names another
//!     ├─ ralph-coordinator serve
//!     └─ ralph-worker run, N times
//! ```
//! Each is started again when it dies, but for a worker that was drained. The order of the start is the order above, and of the
//! stop its reverse. A data folder that another `up` left, however that ended, is gone on with.

mod args;
mod children;
mod detach;
mod machine;
mod servers;
mod steps;
mod stop;

pub use args::UpArgs;
pub use machine::up;

//! `up`: everything on one machine, as children of one process.
//!
//! ```text
//! up ─┬─ postgres      private, unless DATABASE_URL names another
//!     ├─ nats-server   private, unless NATS_URL names another
//!     ├─ ralph-coordinator serve
//!     └─ ralph-worker run, N times
//! ```
//! Each child is started again when it dies, except a drained worker. Children start in the order above and
//! stop in reverse. `up` continues from the data folder of an earlier `up`, however that one ended.

mod args;
mod children;
mod detach;
mod machine;
mod servers;
mod steps;
mod stop;

pub use args::UpArgs;
pub use machine::up;

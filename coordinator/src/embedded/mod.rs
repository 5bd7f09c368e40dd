//! The private servers of a single machine: a Postgres and a nats-server that run as children of `up` and of the tests.
//!
//! [`find`] finds the server programs, [`datadir`] owns the data folder, [`postgres`] and [`nats`] each
//! start, watch and stop one server. [`child`] runs any process so that it never outlives us.
//! Nothing here listens on a public address, and nothing answers without a generated password (DESIGN 7).
//!
//! The caller handles migrations, streams and other processes.

pub mod child;
pub mod find;
pub mod nats;
mod nats_config;
pub mod postgres;
mod postgres_init;
mod postgres_settings;
mod probe;
mod readiness;
pub mod runas;

pub use child::{Backoff, ChildSpec, Phase, Process, StopStep, Supervised};
pub use find::{NatsServer, PostgresServer, SearchPaths, ServerNotFound};
pub use nats::{Nats, Role};
pub use postgres::Postgres;
pub use ralph_cli::machine::datadir::{self, DataDir, DataDirError, Published};
pub use readiness::ServerError;

/// How durably the servers write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tuning {
    /// For production: a commit is on disk when it returns.
    Durable,
    /// For tests: nothing is synced, so a power cut loses everything and a test starts sooner.
    Tests,
}

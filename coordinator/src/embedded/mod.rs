//! The private servers of a single machine: a Postgres and a nats-server that run as children of `up` and of the tests.
//!
//! [`find`] says which server programs are here, [`datadir`] owns the folder that everything lives in, [`postgres`] and
//! [`nats`] start, watch and stop one server each, and [`child`] is how any process is run so that it never outlives us.
//! Nothing here listens on a public address, and nothing answers without a generated password (DESIGN 7).
//!
//! Left to the caller: migrations, streams, and what else runs beside the servers.

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

/// How careful the servers are with what they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tuning {
    /// For work that matters: a commit is on the disk when it returns.
    Durable,
    /// For tests: nothing is synced, so that a power cut loses everything and a test starts sooner.
    Tests,
}

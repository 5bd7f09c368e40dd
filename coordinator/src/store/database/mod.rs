//! The connection to Postgres: addresses, pool, migrations, commits.

pub(crate) mod commit;
pub(crate) mod connect;
pub mod plans;
pub(crate) mod server;

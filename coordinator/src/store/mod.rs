//! All SQL, one module per aggregate. Functions take a connection; the flow step owns the transaction.
//!
//! A write for an attempt names its dispatch. A write without a matching row is an outcome, not an error.

pub mod access;
pub mod availability;
pub mod blob;
pub mod budget;
pub mod changes;
pub mod costs;
pub mod database;
pub mod dispatch;
pub mod edit;
pub mod expired;
pub mod feature;
pub mod figures;
pub mod git;
pub mod idempotency;
pub mod login;
pub mod memory;
pub mod notice;
pub mod question;
pub mod queue;
pub mod run;
pub mod task;
pub mod view;
pub mod worker;

pub use crate::store::database::commit::{begin_claims, begin_unflushed, flush};
pub use crate::store::database::connect::{
    SchemaError, connect, connect_lazy, connect_with, migrate, pending_migrations, ping, retry_serialization,
    server_version,
};
pub use crate::store::database::server::{ConnectError, Server};

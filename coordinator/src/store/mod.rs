//! All SQL, one module an aggregate. Functions take a connection; the flow step owns the transaction.
//!
//! A write for an attempt names its dispatch; when it finds no row, that is an outcome and no error.

pub mod access;
pub mod aged;
pub mod blob;
pub mod branch;
pub mod budget;
pub mod change;
pub mod claimable;
pub mod colliding;
pub mod context;
pub mod costs;
pub mod deps;
pub mod dispatch;
pub mod distill;
pub mod door;
pub mod earlier;
pub mod edit;
pub mod feature;
pub mod figures;
pub mod gate;
pub mod hold;
pub mod hook;
pub mod idempotency;
pub mod import;
pub mod integration;
pub mod keys;
pub mod lease;
pub mod library;
pub mod memory;
pub mod moving;
pub mod nearness;
pub mod notice;
pub mod operation;
pub mod original;
pub mod outcomes;
pub mod plans;
pub mod postings;
pub mod precedence;
pub mod prompt;
pub mod question;
pub mod ready;
pub mod recall;
pub mod retention;
pub mod run;
pub mod schedule;
pub mod survey;
pub mod takeback;
pub mod task;
pub mod trace;
pub mod transcript;
pub mod upkeep;
pub mod usage;
pub mod uses;
pub mod vectors;
pub mod view;
pub mod waits;
pub mod worker;

mod commit;
mod connect;
mod server;

pub use commit::{begin_claims, begin_unflushed, flush};
pub use connect::{
    SchemaError, connect, connect_lazy, connect_with, migrate, pending_migrations, ping, retry_serialization,
    server_version,
};
pub use server::{ConnectError, Server};

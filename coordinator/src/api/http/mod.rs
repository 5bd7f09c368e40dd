//! Shared parts of all routes: authentication, limits, idempotency, problem documents, the server itself.

pub(crate) mod accept;
pub mod access;
pub(crate) mod app;
pub(crate) mod audit;
pub mod caller;
pub(crate) mod connections;
pub(crate) mod encrypt;
pub(crate) mod idempotency;
pub(crate) mod locate;
pub(crate) mod problem;
pub(crate) mod rate;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod slow_requests;
pub mod token_cache;

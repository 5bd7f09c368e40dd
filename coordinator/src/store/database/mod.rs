//! TODO store::database

pub(crate) mod commit;
pub(crate) mod connect;
pub mod plans;
pub(crate) mod server;

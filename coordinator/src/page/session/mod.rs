//! Sessions of browsers: checks of requests, visitors, and the login.

pub(crate) mod guard;
pub(crate) mod login;
pub(crate) mod signed_in;
pub(crate) mod trouble;
pub(crate) mod visitor;

//! Sessions of browsers: which requests are answered, who looks, and how they log in.

pub(crate) mod guard;
pub(crate) mod login;
pub(crate) mod signed_in;
pub(crate) mod trouble;
pub(crate) mod visitor;

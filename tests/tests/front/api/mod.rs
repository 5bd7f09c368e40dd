//! The HTTP API as programs use it.

pub(crate) mod accountable;
pub(crate) mod basics;
pub(crate) mod bounds;
pub(crate) mod by_hand;
pub(crate) mod hooks;
pub(crate) mod idempotency;
pub(crate) mod logins;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod rate;
pub(crate) mod ready;
pub(crate) mod repositories;
pub(crate) mod tokens;
pub(crate) mod watchers;

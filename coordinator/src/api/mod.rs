//! The HTTP API for people and programs (SPEC 9.1).
//!
//! `/api/v1/…` speaks JSON in the words of SPEC 1 and needs a bearer token. A list is `{"items": […], "next":
//! cursor or null}`; an error is a problem document (RFC 9457) that says what to do next. The bodies are in
//! `ralph-api`, which the command line shares. Nothing here decides: a handler reads the request, calls a
//! step of [`crate::flow`] or a query of [`crate::store::view`], and returns the result.

mod changes;
pub mod costs;
mod features;
mod feed;
pub(crate) mod follow;
mod health;
mod hooks;
pub mod http;
mod inbox;
pub(crate) mod logins;
mod memory;
mod metrics;
pub(crate) mod news;
mod openapi;
mod operations;
mod routes;
mod schedules;
mod submit;
mod system;
mod tasks;
mod tokens;
pub(crate) mod transcript;

pub use crate::api::http::access::{hash_token, operator_name, register_token};
pub use crate::api::http::server::{Bounds, serve, serve_within};
pub use health::{Health, serve_health};
pub use ralph_api::body;

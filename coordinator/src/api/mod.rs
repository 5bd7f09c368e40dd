//! The HTTP API: everything that people and programs can ask (SPEC 9.1).
//!
//! `/api/v1/…` speaks JSON in the words of SPEC 1 and wants a bearer token; a list is `{"items": […], "next": cursor or
//! null}`; an error is a problem document (RFC 9457) that says what to do next. [`body`] has what requests and answers are
//! made of, shared with the command line. Nothing here decides: a handler reads the request, calls a step of [`crate::flow`]
//! or a query of [`crate::store::view`], and tells the result.

mod access;
mod agents;
mod app;
pub mod body;
mod caller;
mod changes;
mod checks;
pub mod costs;
mod deps;
mod described;
mod dirs;
mod docs;
mod entries;
mod examples;
mod feature_edit;
mod features;
mod feed;
mod follow;
mod given;
mod health;
mod hooks;
mod inbox;
mod links;
mod load;
mod locate;
mod memory;
mod metrics;
mod once;
mod openapi;
mod operations;
mod places;
mod problem;
mod rate;
mod repository;
mod request;
mod restore;
mod retention;
mod routes;
mod schedules;
mod seal;
mod server;
mod submit;
mod system;
mod tasks;
mod texts;
mod tokens;
mod transcript;
mod unheard;

pub use access::{hash_token, operator_name, register_token};
pub use health::{Health, serve_health};
pub use server::{Bounds, serve, serve_within};
pub use submit::DEFAULT_MAX_PARALLEL;

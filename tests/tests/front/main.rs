//! What people touch: the HTTP API and the command line, against real servers and processes.
#![allow(clippy::unwrap_used)]

mod api;
mod availability;
mod axe;
mod caller;
mod ceilings;
mod cli;
mod costs;
mod fenced;
mod forgotten;
mod git;
mod guest;
#[path = "../transitions/invariants.rs"]
mod invariants;
mod killed;
mod large;
mod night;
mod notices;
mod page;
mod page_left_open;
mod page_morning;
mod page_watched;
mod people;
mod restart;
mod stage;
mod typed;
mod walk_through;

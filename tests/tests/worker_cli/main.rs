//! The worker's commands for people, as real processes with real agents.
#![allow(clippy::unwrap_used)]

mod bench;
mod chat;
mod doctor;
mod run;
mod tools;

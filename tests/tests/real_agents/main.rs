//! The whole system with real agents, whose model is scripted: real agents' processes in the
//! sandbox, each by its preset, no network. `make test-agents` installs them and says in `RALPH_REAL_AGENTS` where.
#![allow(clippy::unwrap_used)]

mod handshake;
mod model;
mod real;
mod stage;
mod system;
mod tasks;

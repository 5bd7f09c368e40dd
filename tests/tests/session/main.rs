//! One session against real agent processes, well-behaved and not. Every scene checks at its end that no
//! process remains.
#![allow(clippy::unwrap_used)]

mod bounds;
mod cancel;
mod escape;
mod exits;
mod handshake;
mod junk;
mod logins;
mod network;
mod profiles;
mod requests;
mod resume;
mod scene;
mod turn;

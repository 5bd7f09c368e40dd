//! The main job from end to end: real servers, real git, real agent processes, and everything that can go
//! wrong.
#![allow(clippy::unwrap_used)]

mod faults;
mod gates;
mod growth;
mod idle;
mod merges;
mod refused;
mod scene;
mod serve;
mod sessions;
mod side_by_side;
mod soak;
mod tls;
mod tls_servers;
mod traces;
mod train_faults;
mod trains;
mod waiting_claims;
mod way;

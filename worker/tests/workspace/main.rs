//! Workspaces against real git and real repositories.
#![allow(clippy::unwrap_used)]

mod integrating;
mod kills;
mod landing;
mod preparing;
mod remote;
mod snapshots;

//! Workspaces against real git and real repositories.
#![allow(clippy::unwrap_used)]

mod integrating;
mod kills;
mod landing;
mod merging;
mod preparing;
mod remote;
mod snapshots;

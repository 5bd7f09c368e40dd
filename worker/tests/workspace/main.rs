//! Workspaces against real git and real repositories.
#![allow(clippy::unwrap_used)]

mod budget;
mod caches;
mod ended;
mod filters;
mod kills;
mod kills_inside;
mod landing;
mod odd;
mod orphan_commits;
mod preparing;
mod printed;
mod remote;
mod remotes;
mod repo_scan;
mod room;
mod scratch;
mod snapshots;
mod unused;
mod user;
mod warm;

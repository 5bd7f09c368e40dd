//! Workspaces against real git and real repositories.
#![allow(clippy::unwrap_used)]

mod branch;
mod budget;
mod caches;
mod checked_out;
mod ended;
mod history;
mod http;
mod https;
mod integrating;
mod kills;
mod kills_inside;
mod landing;
mod lfs;
mod merging;
mod odd;
mod operating;
mod packing;
mod preparing;
mod printed;
mod pruning;
mod refused;
mod remote;
mod room;
mod scratch;
mod shallow;
mod snapshots;
mod ssh;
mod sshd;
mod strays;
mod submodules;
mod survey;
mod unused;
mod user;
mod verdicts;

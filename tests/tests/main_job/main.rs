//! The main job from end to end: real servers, real git, real agents' processes; and everything that may go wrong with it.
#![allow(clippy::unwrap_used, missing_docs)]

mod agents;
mod apart;
mod beside;
mod conflicts;
mod coordinator_killed;
mod dirs;
mod disk;
mod doors;
mod drain;
mod git_server;
mod growth;
mod idle;
mod long_result;
mod races;
mod reports;
mod scene;
mod serve;
mod server_killed;
mod side_by_side;
mod soak;
mod symlinks;
mod verdicts;
mod way;
mod worker_killed;
mod worker_stopped;

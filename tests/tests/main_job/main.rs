//! The main job from end to end: real servers, real git, real agents' processes.
#![allow(clippy::unwrap_used, missing_docs)]

mod idle;
mod scene;
mod way;
mod worker_killed;

//! Memory that helps: earlier attempts and tasks leave entries that reach the sessions that need them,
//! through real coordinators, workers and agents.
#![allow(clippy::unwrap_used)]

mod at_once;
mod bounds;
mod corrected;
mod deleted;
mod distill;
mod embeddings;
mod floor;
mod heads;
mod heard;
mod index;
mod model;
mod nearness;
mod outcome_rules;
mod outcomes;
mod poisoned;
#[allow(dead_code)]
#[path = "../transitions/pool.rs"]
mod pool;
mod prompts;
mod revoking {
    mod copies;
    pub mod revoked;
}
mod repo_scan;
mod scene;
mod sources;
mod trust;
mod unrelated;
mod unverified;
mod worth;

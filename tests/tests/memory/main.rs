//! Memory that helps: what earlier attempts and tasks left reaches those who need it, through real coordinators, workers and
//! agents.
#![allow(clippy::unwrap_used, missing_docs)]

mod bounds;
mod distill;
mod embeddings;
mod floor;
mod model;
mod outcomes;
mod sources;
mod survey;
mod trust;
mod unrelated;
mod worth;

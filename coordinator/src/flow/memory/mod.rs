//! TODO flow::memory

pub mod capture;
pub mod context;
pub mod distill;
pub mod embed_entries;
pub mod embedding;
pub(crate) mod layout;
pub mod library;
pub mod lifecycle;
pub(crate) mod questions;
pub mod recall;
pub mod repo_scan;
pub mod select;
pub mod similarity;
pub mod upkeep;
pub(crate) mod wording;

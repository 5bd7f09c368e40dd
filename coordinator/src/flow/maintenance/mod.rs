//! TODO flow::maintenance

pub mod expired;
pub mod recount;
pub mod retention;
pub mod transcripts;

//! Jobs that run by the clock: each is idempotent and may be killed at any moment.

pub mod expired;
pub mod recount;
pub mod retention;
pub mod transcripts;

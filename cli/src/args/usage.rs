//! Mistakes in how a command was called.

/// A mistake in how a command was called: exit code 2 (SPEC 3.5).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

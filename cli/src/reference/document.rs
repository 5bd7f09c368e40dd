//! Output of commands for programs.

use serde::Serialize;
use utoipa::ToSchema;

/// A document that a command prints for programs.
pub trait Document: Serialize + ToSchema {
    /// Its kind, a constant name.
    const KIND: &'static str;
}

//! A document that a command prints for programs.

use serde::Serialize;
use utoipa::ToSchema;

/// Something that a command prints for programs.
pub trait Document: Serialize + ToSchema {
    /// What it is, in words that never change.
    const KIND: &'static str;
}

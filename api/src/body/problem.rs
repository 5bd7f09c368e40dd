//! A problem document on the wire.

use serde::{Deserialize, Serialize};

/// An error as clients read it (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// Kind of problem: `urn:ralph:problem:…`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong in this case, and what to do next.
    #[serde(default)]
    pub detail: String,
    /// The individual problems of a refused task graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

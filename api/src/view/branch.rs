//! What landed on a feature's branch.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A commit of a feature's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Landing {
    /// Hex object id.
    pub commit: String,
    /// The task that landed it.
    pub task: String,
    /// Its key in the graph.
    pub key: String,
    /// Its title.
    pub title: String,
    /// Number of the attempt.
    pub attempt: i32,
    /// Whether it changes nothing.
    pub empty: bool,
    /// Whether a later commit took it back.
    pub reverted: bool,
    /// When it landed.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

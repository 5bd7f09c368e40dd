//! Landed commits of a feature's branch.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A landed commit of a feature's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Landing {
    /// Hex object id.
    pub commit: String,
    /// The task that landed it.
    pub task: String,
    /// The task's key in the graph.
    pub key: String,
    /// The task's title.
    pub title: String,
    /// Number of the attempt.
    pub attempt: i32,
    /// Whether the commit changes nothing.
    pub empty: bool,
    /// Whether a later commit reverted it.
    pub reverted: bool,
    /// Time of the landing.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

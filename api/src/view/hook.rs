//! Webhooks.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A hook for people, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HookView {
    pub name: String,
    /// Name of the feature that it makes a copy of.
    pub feature: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub fired_at: Option<OffsetDateTime>,
    /// Name of the feature that it made last.
    pub made: Option<String>,
    /// Why it made nothing the last time.
    pub problem: Option<String>,
}

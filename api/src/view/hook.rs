//! Webhooks.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A hook without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HookView {
    pub name: String,
    /// Name of the feature that the hook copies.
    pub feature: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub fired_at: Option<OffsetDateTime>,
    /// Name of the last feature that it created.
    pub made: Option<String>,
    /// Why the last request created no feature.
    pub problem: Option<String>,
}

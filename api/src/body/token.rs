//! Tokens on the wire.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::view::Role;

/// `POST /api/v1/tokens`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Name of the token: 1 to 40 of `[a-z0-9-]`.
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub name: String,
    /// What the token may do.
    pub role: Role,
    /// Time until the token expires; never when omitted. Milliseconds, at most ten years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    pub expires_in_ms: Option<i64>,
    /// Repositories that the token may submit work for, as patterns of host and path: `github.com/acme/*`;
    /// any when omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub repositories: Vec<String>,
}

/// A new token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedToken {
    /// Name of the token.
    pub name: String,
    /// What the token may do.
    pub role: Role,
    /// Time at which the token expires; `null` for never.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// The token itself; shown only here.
    pub token: String,
}

/// A link that logs a browser in to the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedLogin {
    /// Path to append to the coordinator's address; shown only here, and valid for one login.
    pub path: String,
    /// Time at which the link expires.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
}

//! Tokens on the wire.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::view::Role;

/// `POST /api/v1/tokens`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is called: 1 to 40 of `[a-z0-9-]`.
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// After how long it is refused; never when it isn't given. Milliseconds, at most ten years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    pub expires_in_ms: Option<i64>,
    /// Repositories that it may submit work for, as patterns over host and path: `github.com/acme/*`; any when none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub repositories: Vec<String>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedToken {
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// From when on it is refused; `null` for never.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// The token; it is told only here.
    pub token: String,
}

/// A link that logs a browser in to the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedLogin {
    /// Behind the coordinator's address; it is told only here, and used up by its first use.
    pub path: String,
    /// From when on it logs nobody in.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
}

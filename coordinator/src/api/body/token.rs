//! Tokens on the wire.

use serde::{Deserialize, Serialize};

use crate::store::access::Role;

/// `POST /api/v1/tokens`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is called: 1 to 40 of `[a-z0-9-]`.
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub name: String,
    /// What it may do.
    pub role: Role,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedToken {
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The token; it is told only here.
    pub token: String,
}

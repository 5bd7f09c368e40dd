//! Output of `ralph-coordinator doctor`.

use serde::Serialize;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    pub status: Status,
    /// The finding in words.
    pub found: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FindingStatus)]
pub enum Status {
    Ok,
    /// Not needed for a start.
    Note,
    Missing,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Ok,
            found: found.into(),
            advice: None,
        }
    }

    pub fn other(
        check: &'static str,
        status: Status,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            status,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }
}

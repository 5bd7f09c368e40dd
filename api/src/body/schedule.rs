//! What begins features without a person.

use serde::{Deserialize, Serialize};

use ralph_domain::scheduling::schedule::Missed;

/// `PUT /api/v1/features/{id}/schedule`: either `at` or `cron`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// When the feature's run begins, once: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// When a copy of the feature is made and run: minute, hour, day, month and weekday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Whose wall clock `cron` means, a name of the IANA database; `UTC` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What becomes of times that no coordinator was there for; one firing makes up for them when it isn't given.
    #[serde(default)]
    pub missed: Missed,
}

/// `PATCH /api/v1/features/{id}/schedule`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSchedule {
    /// Whether it fires no more for now.
    pub paused: bool,
}

/// `POST /api/v1/hooks`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateHook {
    /// What it is called: 1 to 40 of `[a-z0-9-]`.
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub name: String,
    /// Name or id of the feature that it makes a copy of.
    pub feature: String,
}

/// A hook that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedHook {
    /// What it is called.
    pub name: String,
    /// Where requests go.
    pub path: String,
    /// Key of signatures, or bearer token; it is told only here.
    pub secret: String,
}

/// What a hook's request came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hooked {
    /// Id of the feature that was made, now or when the same delivery came first.
    pub feature: Option<String>,
    /// Whether the same delivery came before.
    pub again: bool,
}

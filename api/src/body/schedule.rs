//! Schedules and hooks, which start features without a person.

use serde::{Deserialize, Serialize};

use ralph_domain::scheduling::schedule::Missed;

/// `PUT /api/v1/features/{id}/schedule`: either `at` or `cron`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// Time at which the feature's run starts, once: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Times at which a copy of the feature is created and run: minute, hour, day, month and weekday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Time zone of `cron`, a name of the IANA database; `UTC` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What happens to times at which no coordinator ran; when omitted, the schedule fires once for all of
    /// them.
    #[serde(default)]
    pub missed: Missed,
}

/// `PATCH /api/v1/features/{id}/schedule`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSchedule {
    /// Whether the schedule is paused.
    pub paused: bool,
}

/// `POST /api/v1/hooks`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateHook {
    /// Name of the hook: 1 to 40 of `[a-z0-9-]`.
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub name: String,
    /// Name or id of the feature that the hook copies.
    pub feature: String,
}

/// A new hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedHook {
    /// Name of the hook.
    pub name: String,
    /// Path that takes the hook's requests.
    pub path: String,
    /// Key of signatures, or bearer token; shown only here.
    pub secret: String,
}

/// The result of a request to a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hooked {
    /// Id of the feature that was created, now or when the same delivery first arrived.
    pub feature: Option<String>,
    /// Whether the same delivery arrived before.
    pub again: bool,
}

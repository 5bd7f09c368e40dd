//! The long texts of a feature.

use serde::{Deserialize, Serialize};

/// The texts that define a feature (SPEC 2.1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TextsView {
    /// The description.
    pub description: String,
    /// The specification.
    pub spec: Option<String>,
    /// The plan.
    pub plan: Option<String>,
    /// A task graph that waits for approval.
    pub tasks: Option<String>,
}

/// `PUT /api/v1/features/{id}/texts/spec`, `…/plan` and `…/tasks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteText {
    /// The whole text.
    #[schema(pattern = r"\S")]
    pub text: String,
    /// The text that the change started from; nothing is stored when the stored one has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Whether to resume a run that waited for the text; `true` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

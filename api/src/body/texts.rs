//! The long texts of a feature.

use serde::{Deserialize, Serialize};

/// What a feature is about (SPEC 2.1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TextsView {
    /// As it was submitted.
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
    /// The text that the change started from; when it isn't the stored one any more, nothing is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Whether a run goes on that waited for the text; `true` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

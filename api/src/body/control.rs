//! Commands on features, tasks and workers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Options of a command. The task's log shows the reason, and for `interrupt` the next prompt does too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOptions {
    /// The reason. For `interrupt`, `retry`, `reject` and `feedback` it is text for the agent; the last two
    /// require it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether to resume a run that ended because of what the command decides; `true` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

/// The answer to a question: text, or a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// The answer as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The number of a choice, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<usize>,
    /// The question's id; the first question that a session waits for when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub question: Option<Uuid>,
    /// Whether to resume a run that ended because of the question; `true` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Done {
    /// Number of affected tasks or sessions.
    pub count: usize,
    /// The ended run that the command resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

impl Done {
    /// `count` tasks or sessions were affected, and no run was resumed.
    pub fn of(count: usize) -> Self {
        Self { count, run: None }
    }
}

/// `POST /api/v1/tasks/{id}/deps`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDependencies {
    /// Tasks that must be done first: prefixes of their ids, or `FEATURE/KEY`.
    #[schema(schema_with = super::submit::task_ids)]
    pub blockers: Vec<String>,
}

/// A run was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Started {
    /// The feature.
    pub feature: String,
    /// The new run; `None` when the command starts none.
    pub run: Option<String>,
}

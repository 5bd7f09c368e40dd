//! Commands on features, tasks and workers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a person does it; stands in the task's log, and for `interrupt` in the next prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOptions {
    /// The reason, or for `interrupt`, `retry`, `reject` and `feedback` what the agent should know; the last two need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether a run goes on that ended for what is decided; `true` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

/// The answer to a question: in words, or by a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The number of a choice, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<usize>,
    /// The question's id; the first that a session waits for when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub question: Option<Uuid>,
    /// Whether a run goes on that ended for the question; `true` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

/// A command was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Done {
    /// How many tasks or sessions were concerned.
    pub count: usize,
    /// The run that goes on with what was decided, and had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

impl Done {
    /// So many were concerned, and no run goes on for it.
    pub fn of(count: usize) -> Self {
        Self { count, run: None }
    }
}

/// `POST /api/v1/tasks/{id}/deps`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDependencies {
    /// What must be done before: the beginnings of their ids, or `FEATURE/KEY`.
    #[schema(schema_with = super::submit::task_ids)]
    pub blockers: Vec<String>,
}

/// A run was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Started {
    /// The feature.
    pub feature: String,
    /// Its new run; `None` when the command starts none.
    pub run: Option<String>,
}

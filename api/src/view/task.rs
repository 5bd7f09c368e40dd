//! Tasks.

use ralph_domain::states::{TaskState, Verification};
use ralph_domain::status::why_waiting::QueuePosition;
use ralph_shared::kind::SessionKind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::dispatch::DispatchView;

/// A task as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskView {
    pub id: String,
    pub feature: String,
    /// Name of its feature.
    #[serde(default)]
    pub feature_name: String,
    pub parent: Option<String>,
    pub key: String,
    /// Keys of the tasks that block it, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    pub title: String,
    pub status: TaskState,
    /// Why it failed, needs a person, or can't land yet.
    pub reason: Option<String>,
    pub priority: i32,
    pub pool: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub max_retries: i32,
    pub verify: bool,
    pub verification_status: Verification,
    /// Number of the last attempt; 0 before the first.
    pub attempt: i32,
    /// Failures in a row.
    pub failures: i16,
    pub open_blockers: i32,
    pub children: i32,
    /// Whether a failed or cancelled ancestor holds it.
    pub held: bool,
    /// The task with the same paths that it waits for, in a feature that avoids conflicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// Its concurrency key, or the key of its feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Why it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// End of the wait, if known.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub waits_until: Option<OffsetDateTime>,
    /// Its position in the queue, if it waits for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePosition>,
    /// The declared paths that it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Its live session.
    pub session: Option<TaskSession>,
}

impl TaskView {
    /// Name for people: `FEATURE/KEY`.
    pub fn handle(&self) -> String {
        format!("{}/{}", self.feature_name, self.key)
    }
}

/// Why an otherwise ready task is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldBy {
    /// The task that it waits for.
    pub task: String,
    /// A path that both change.
    pub path: String,
}

impl std::fmt::Display for HeldBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "held: {} changes {} too", self.task, self.path)
    }
}

/// A task that waits for another one that changes the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldTask {
    /// The task.
    pub task: String,
    /// Title of the task.
    pub title: String,
    /// The task that it waits for, and the path.
    pub held_by: HeldBy,
}

/// A task's live session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskSession {
    pub id: String,
    pub kind: SessionKind,
    pub worker: String,
    pub model: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
}

/// A reference to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskRef {
    pub id: String,
    pub title: String,
    pub status: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// FEATURE/KEY, or its id if that is ambiguous; set if the task waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Commands that a person can type about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// A task with its description, relations and dispatches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: TaskView,
    pub description: String,
    /// What it waits for if it is ready but no worker can start it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    pub blockers: Vec<TaskRef>,
    pub dependents: Vec<TaskRef>,
    pub subtasks: Vec<TaskRef>,
    /// The last 100 dispatches, oldest first.
    pub dispatches: Vec<DispatchView>,
    /// The commit on the feature branch once it has landed.
    pub landed_commit: Option<String>,
}

/// A change to a task or a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogEntry {
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub actor: String,
    pub what: String,
    pub why: Option<String>,
}

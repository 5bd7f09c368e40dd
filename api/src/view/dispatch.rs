//! Dispatches: live sessions and past attempts.

use ralph_domain::failure::Failure;
use ralph_domain::states::Outcome;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::Question;
use ralph_shared::wire::{OrphanRef, StepTime, TestChange};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// One session handed to one worker, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DispatchView {
    pub id: String,
    pub task: String,
    pub run: String,
    pub kind: SessionKind,
    pub attempt: i32,
    /// `live`, `settled`, `lost`, `superseded`.
    pub status: String,
    pub outcome: Option<Outcome>,
    /// The failure, if it failed: a reason of `docs/failures.md`.
    #[serde(default)]
    pub failure: Option<Failure>,
    pub reason: Option<String>,
    pub worker: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub model_reason: Option<String>,
    /// The model that the agent reported, if it differs from [`Self::model`].
    #[serde(default)]
    pub model_used: Option<String>,
    pub journal: Option<String>,
    /// Whether the journal quotes revoked memory; prompts no longer show such a journal.
    #[serde(default)]
    pub journal_doubted: bool,
    pub feedback: Option<String>,
    /// The commit from which it started.
    #[serde(default)]
    pub start_commit: Option<String>,
    pub commit: Option<String>,
    pub pushed_ref: Option<String>,
    /// Time at which a worker removed `pushed_ref`.
    #[serde(with = "time::serde::rfc3339::option")]
    pub pruned_at: Option<OffsetDateTime>,
    /// Orphan commits: the agent's commits outside the history of its result. The worker pushes them to refs
    /// next to `pushed_ref`, and removes them with it.
    #[serde(default)]
    pub strays: Vec<OrphanRef>,
    pub files_changed: Vec<String>,
    /// Weakened tests, as far as changed lines show them; a hint for reviewers.
    #[serde(default)]
    pub test_changes: Vec<TestChange>,
    /// The commands of the gate that it ran, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_times: Vec<StepTime>,
    /// Its questions to a person, in order.
    #[serde(default)]
    pub questions: Vec<QuestionView>,
    pub stop_reason: Option<String>,
    /// Time from its assignment to its report or, if its worker died, to the worker's last known heartbeat.
    pub duration_ms: Option<i64>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    /// Basis of the cost: `known` (reported, or computed from tokens), `estimated` from texts, `subscription`
    /// (use costs nothing extra), or `unknown`.
    #[serde(default)]
    pub cost_basis: Option<String>,
    pub tool_calls: Option<i32>,
    /// The agent's sigils that could not be read: cut off or malformed (SPEC 4).
    #[serde(default)]
    pub malformed_sigils: Option<i32>,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
}

/// A question of a session to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuestionView {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub asked: String,
    /// Choices that can be answered by number, from 1; any other text is an answer too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub asked_at: OffsetDateTime,
    /// Time until which the session waits, while it waits.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub waits_until: Option<OffsetDateTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Name of the token that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub answered_at: Option<OffsetDateTime>,
}

impl QuestionView {
    /// Question and choices in one text.
    pub fn words(&self) -> String {
        Question {
            asked: self.asked.clone(),
            choices: self.choices.clone(),
        }
        .words()
    }
}

/// A session that runs now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionView {
    pub id: String,
    pub kind: SessionKind,
    pub task: String,
    /// The task's key, and the name of its feature.
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub feature_name: String,
    pub title: String,
    pub feature: String,
    pub attempt: i32,
    pub worker: String,
    pub model: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// Time since the start by the database's clock.
    pub elapsed_ms: i64,
    /// Its question, while it waits for a person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
}

/// Session of a transcript or a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TranscriptOf {
    /// The dispatch.
    pub dispatch: String,
    /// The task.
    pub task: String,
    /// Kind of session.
    pub kind: SessionKind,
    /// Number of the attempt.
    pub attempt: i32,
    /// Name of the worker.
    pub worker: String,
    /// Whether the session still runs.
    pub live: bool,
}

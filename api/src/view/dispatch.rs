//! Dispatches: the sessions that run, and the attempts that were.

use ralph_domain::failure::Failure;
use ralph_domain::states::Outcome;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::Question;
use ralph_shared::wire::{OrphanRef, StepTime, TestChange};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// One session that was handed to a worker, and how it ended.
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
    /// Why it came to nothing, if it did: a reason of `docs/failures.md`.
    #[serde(default)]
    pub failure: Option<Failure>,
    pub reason: Option<String>,
    pub worker: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub model_reason: Option<String>,
    /// The model that its agent really worked with, where that told one and it isn't [`Self::model`].
    #[serde(default)]
    pub model_used: Option<String>,
    pub journal: Option<String>,
    /// Whether the journal quotes what was revoked: no prompt shows it any more.
    #[serde(default)]
    pub journal_doubted: bool,
    pub feedback: Option<String>,
    /// Where it began.
    #[serde(default)]
    pub start_commit: Option<String>,
    pub commit: Option<String>,
    pub pushed_ref: Option<String>,
    /// When a worker had removed that ref.
    #[serde(with = "time::serde::rfc3339::option")]
    pub pruned_at: Option<OffsetDateTime>,
    /// What the agent committed elsewhere than under the files that it left; pushed to refs beside that one, and removed
    /// with it.
    #[serde(default)]
    pub strays: Vec<OrphanRef>,
    pub files_changed: Vec<String>,
    /// What became weaker in tests, as far as that can be seen from lines; a hint for whoever judges.
    #[serde(default)]
    pub test_changes: Vec<TestChange>,
    /// The commands of the gate that it ran, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_times: Vec<StepTime>,
    /// What it asked of a person, in that order.
    #[serde(default)]
    pub questions: Vec<QuestionView>,
    pub stop_reason: Option<String>,
    /// From its assignment to its report, or, where its worker died, to that worker's last heartbeat, as far as that is known.
    pub duration_ms: Option<i64>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    /// How its cost is known: `known` (told, or computed from tokens), `estimated` from texts, `subscription` (nothing is paid by
    /// use), or `unknown`.
    #[serde(default)]
    pub cost_basis: Option<String>,
    pub tool_calls: Option<i32>,
    /// Sigils of its agent that came to nothing: cut off, or said otherwise than they are read (SPEC 4).
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
    /// What can be answered by number, from 1; other words are an answer too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub asked_at: OffsetDateTime,
    /// Until when its session waits, while it does.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub waits_until: Option<OffsetDateTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The name of the token that answered.
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
    /// By the database's clock.
    pub elapsed_ms: i64,
    /// What it asked, while it waits for a person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
}

/// Whose transcript it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TranscriptOf {
    /// The dispatch.
    pub dispatch: String,
    /// The task.
    pub task: String,
    /// What it does.
    pub kind: SessionKind,
    /// Number of the attempt.
    pub attempt: i32,
    /// Who works.
    pub worker: String,
    /// Whether it still runs.
    pub live: bool,
}

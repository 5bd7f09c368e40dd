//! All that waits for a person, over all features, with what they can do about it.

use ralph_domain::status::condition::Word;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::dispatch::QuestionView;
use super::feature::TaskCounts;

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxView {
    /// Each thing by itself, in the order of how it is decided: approvals first.
    pub items: Vec<InboxItem>,
    /// How many features, of the 500 newest, are in each condition.
    pub features: Vec<ConditionCount>,
    /// Their tasks.
    pub tasks: TaskCounts,
    /// What they cost so far, live sessions included. US dollars.
    pub cost_usd: f64,
    /// Whether some of that is estimated.
    pub estimated: bool,
}

/// How many features are in a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ConditionCount {
    /// The condition.
    pub word: Word,
    /// How many.
    pub features: i64,
}

/// What kind of thing waits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum InboxKind {
    /// A result waits for approval.
    Approval,
    /// A task needs a person.
    Review,
    /// An agent asked something, and nobody answered.
    Question,
    /// A task or a feature failed for good.
    Failed,
    /// A limit lets nothing go on.
    Limit,
    /// A feature waits for a run.
    Run,
    /// A feature can't go on as it is.
    Blocked,
    /// A feature is paused.
    Paused,
    /// An agent isn't started.
    Agent,
    /// Tasks have no worker.
    Worker,
    /// A memory was found to hurt, and is switched off.
    Memory,
}

impl InboxKind {
    /// The word on screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Review => "review",
            Self::Question => "question",
            Self::Failed => "failed",
            Self::Limit => "limit",
            Self::Run => "run",
            Self::Blocked => "blocked",
            Self::Paused => "paused",
            Self::Agent => "agent",
            Self::Worker => "worker",
            Self::Memory => "memory",
        }
    }
}

/// One thing that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxItem {
    /// What kind of thing it is.
    pub kind: InboxKind,
    /// FEATURE/KEY, a feature, an agent or a limit.
    pub name: String,
    /// The feature, by its name, or by its id where others have that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The task's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The task's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it waits.
    pub reason: String,
    /// Since when, as far as that is known.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<OffsetDateTime>,
    /// What an agent asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
    /// What a person can do, as it is typed: what shows it first, and of what decides the likely one first.
    pub commands: Vec<String>,
}

impl InboxItem {
    pub fn empty() -> Self {
        Self {
            kind: InboxKind::Worker,
            name: String::new(),
            feature: None,
            task: None,
            title: None,
            reason: String::new(),
            since: None,
            question: None,
            commands: Vec::new(),
        }
    }
}

//! The inbox: everything that waits for a person in any feature, with commands to type.

use ralph_domain::status::condition::Word;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::dispatch::QuestionView;
use super::feature::TaskCounts;

/// The inbox: everything that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxView {
    /// Items in the order of their kinds: approvals first.
    pub items: Vec<InboxItem>,
    /// Number of features in each condition, among the 500 newest.
    pub features: Vec<ConditionCount>,
    /// Tasks of these features.
    pub tasks: TaskCounts,
    /// Cost of these features so far, including live sessions. US dollars.
    pub cost_usd: f64,
    /// Whether some of the cost is estimated.
    pub estimated: bool,
}

/// Number of features in a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ConditionCount {
    /// The condition.
    pub word: Word,
    /// Number of features.
    pub features: i64,
}

/// Kind of an item.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum InboxKind {
    /// A result waits for approval.
    Approval,
    /// A task needs a person.
    Review,
    /// An agent's question has no answer yet.
    Question,
    /// A task or a feature failed for good.
    Failed,
    /// A limit stops all progress.
    Limit,
    /// A feature waits for a run.
    Run,
    /// A feature is stuck until a person changes something.
    Blocked,
    /// A feature is paused.
    Paused,
    /// An agent is unavailable.
    Agent,
    /// Tasks have no worker.
    Worker,
    /// A memory is switched off because it was found to hurt.
    Memory,
}

/// One item of the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxItem {
    /// Kind of the item.
    pub kind: InboxKind,
    /// FEATURE/KEY, a feature, an agent or a limit.
    pub name: String,
    /// Name of the feature, or its id if other features have the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// Id of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Title of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it waits.
    pub reason: String,
    /// Start of the wait, if known.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<OffsetDateTime>,
    /// The agent's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
    /// Commands that a person can type: first the one that shows the item, then decisions, the likeliest
    /// first.
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

//! Spending.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::budget::BudgetView;

/// What costs are added up by.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Features that there are.
    #[default]
    Feature,
    /// Tasks that there are.
    Task,
    /// Models.
    Model,
    /// Agents.
    Agent,
    /// Accounts at providers.
    Account,
    /// Days, by UTC.
    Day,
    /// Kinds of session.
    Kind,
}

impl By {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Feature => "feature",
            Self::Task => "task",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Account => "account",
            Self::Day => "day",
            Self::Kind => "kind",
        }
    }
}

/// What was spent on one of them. Live sessions count with what they used so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostRow {
    /// A name, a day, or the whole id of a feature or a task.
    pub key: String,
    /// The name of the feature, or the title of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub sessions: i64,
    pub cost_usd: f64,
    /// How much of it is estimated.
    pub estimated_usd: f64,
    /// Sessions that cost nothing by use.
    pub subscription_sessions: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cached_tokens: i64,
    pub cache_write_tokens: i64,
}

impl CostRow {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.cost_usd += other.cost_usd;
        self.estimated_usd += other.estimated_usd;
        self.subscription_sessions += other.subscription_sessions;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
    }
}

/// What was spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostsView {
    /// What it is added up by.
    pub by: By,
    /// Since when; ever when it isn't given, with what deleted features cost where they aren't told apart.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// The dearest first; days newest first.
    pub items: Vec<CostRow>,
    /// All of them together.
    pub total: CostRow,
}

/// Limits at every level, and what is left of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BudgetsView {
    /// The narrowest level first.
    pub items: Vec<BudgetView>,
}

//! Spending.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::budget::BudgetView;

/// Grouping of costs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum By {
    /// By existing feature.
    #[default]
    Feature,
    /// By existing task.
    Task,
    /// By model.
    Model,
    /// By agent.
    Agent,
    /// By account at a provider.
    Account,
    /// By day in UTC.
    Day,
    /// By kind of session.
    Kind,
}

/// Cost of one group. Live sessions count with their usage so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostRow {
    /// A name, a day, or the full id of a feature or a task.
    pub key: String,
    /// Name of the feature, or title of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub sessions: i64,
    pub cost_usd: f64,
    /// Estimated part of the cost.
    pub estimated_usd: f64,
    /// Sessions of a subscription, whose use costs nothing extra.
    pub subscription_sessions: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cached_tokens: i64,
    pub cache_write_tokens: i64,
}

impl CostRow {
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

/// Costs by group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostsView {
    /// The grouping.
    pub by: By,
    /// Start of the period; all time when omitted. Groupings other than by feature or task then include
    /// deleted features.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// The most expensive group first; days newest first.
    pub items: Vec<CostRow>,
    /// Sum of all groups.
    pub total: CostRow,
}

/// Limits at every level, and the remainders of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BudgetsView {
    /// The narrowest level first.
    pub items: Vec<BudgetView>,
}

//! Limits of cost and tokens at every level.

use ralph_domain::budget::levels::Level;
use serde::{Deserialize, Serialize};

/// A limit, and the remainder of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BudgetView {
    pub level: Level,
    /// An account, or the id of a feature or a task. `None` means each item of the level, or the only one.
    /// For the levels session and task, a feature's id means each session or task of the feature.
    pub name: Option<String>,
    /// The feature's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The effective limit: the lower of the set limit and the configured one. US dollars.
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<i64>,
    /// Cost of ended sessions. `None` for a limit that applies to each item. US dollars.
    pub spent_usd: Option<f64>,
    pub in_flight_usd: Option<f64>,
    /// Remainder; negative if more was spent. US dollars.
    pub left_usd: Option<f64>,
    pub spent_tokens: Option<i64>,
    pub in_flight_tokens: Option<i64>,
    pub left_tokens: Option<i64>,
}

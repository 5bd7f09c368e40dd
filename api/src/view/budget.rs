//! Limits of cost and tokens at every level.

use ralph_domain::budget::levels::Level;
use serde::{Deserialize, Serialize};

/// A limit, and what is left of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BudgetView {
    pub level: Level,
    /// An account, or the id of a feature or a task; `None` is each of the level, or the one that there is. Of sessions and tasks, a
    /// feature's is of each of the feature's.
    pub name: Option<String>,
    /// The feature's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What holds: the lesser of what was set and of what the configuration says. US dollars.
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<i64>,
    /// By sessions that ended. Nothing is told of a limit that is of each.
    pub spent_usd: Option<f64>,
    pub in_flight_usd: Option<f64>,
    /// Less than 0 where more was spent.
    pub left_usd: Option<f64>,
    pub spent_tokens: Option<i64>,
    pub in_flight_tokens: Option<i64>,
    pub left_tokens: Option<i64>,
}

//! Limits of cost and tokens at every level.

use ralph_shared::ids::{FeatureId, TaskId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::levels::{Key, Level, Levels, Limit, Used};

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

/// Limits that there are, and what was used of the day, the installation, accounts and features whether they have one or not.
pub async fn budgets(conn: &mut PgConnection, levels: &Levels) -> sqlx::Result<Vec<BudgetView>> {
    let mut keys: Vec<Key> = levels.used.keys().cloned().collect();
    keys.extend(levels.set.keys().cloned());
    keys.extend(levels.ceilings.keys().map(|level| (*level, String::new())));
    keys.sort();
    keys.dedup();
    let ids: Vec<Uuid> = keys
        .iter()
        .filter(|(level, _)| matches!(level, Level::Session | Level::Task | Level::Feature))
        .filter_map(|(_, name)| name.parse().ok())
        .collect();
    let names = sqlx::query!("select id, name from features where id = any($1)", &ids)
        .fetch_all(conn)
        .await?;
    let view = |key: Key| {
        let limit = levels.limit(key.0, &key.1);
        let used = levels.used.get(&key).copied();
        if limit.is_none() && used.is_none() {
            return None;
        }
        let (level, name) = key;
        let id = name.parse::<Uuid>().ok();
        let title = names
            .iter()
            .find(|row| Some(row.id) == id)
            .map(|row| row.name.clone());
        let name = match (level, id) {
            (Level::Task, Some(id)) if title.is_none() => TaskId(id).short(),
            (Level::Session | Level::Task | Level::Feature, Some(id)) => FeatureId(id).short(),
            _ => name,
        };
        Some(of(
            level,
            Some(name).filter(|name| !name.is_empty()),
            title,
            limit,
            used,
        ))
    };
    Ok(keys.into_iter().filter_map(view).collect())
}

fn of(
    level: Level,
    name: Option<String>,
    title: Option<String>,
    limit: Limit,
    used: Option<Used>,
) -> BudgetView {
    BudgetView {
        level,
        name,
        title,
        max_cost_usd: limit.cost_usd,
        max_tokens: limit.tokens,
        spent_usd: used.map(|used| used.usd),
        in_flight_usd: used.map(|used| used.in_flight_usd),
        left_usd: used
            .zip(limit.cost_usd)
            .map(|(used, max)| max - used.usd - used.in_flight_usd),
        spent_tokens: used.map(|used| used.tokens),
        in_flight_tokens: used.map(|used| used.in_flight_tokens),
        left_tokens: used
            .zip(limit.tokens)
            .map(|(used, max)| max - used.tokens - used.in_flight_tokens),
    }
}

//! Limits of cost and tokens at every level.

pub use ralph_api::view::BudgetView;
use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::levels::{Key, Level, Levels};

/// All limits, and the usage of the day, the installation, accounts and features, with or without a limit.
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
        Some(BudgetView {
            level,
            name: Some(name).filter(|name| !name.is_empty()),
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
        })
    };
    Ok(keys.into_iter().filter_map(view).collect())
}

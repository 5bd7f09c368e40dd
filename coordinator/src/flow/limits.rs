//! Limits beside a run's, looked at once a second: what nothing may begin under is noted, what runs under one that is passed is ended in
//! order, and people are told as a limit is used up.

use ralph_shared::wire::{Control, EndReason};
use sqlx::PgPool;

use super::{Settings, Signals};
use crate::domain::levels::{Level, Limit, Used};
use crate::store;
use crate::store::budget::Tasks;

/// Looks once.
pub async fn tick(db: &PgPool, settings: &Settings) -> sqlx::Result<Signals> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut levels = store::budget::read(&mut tx, &settings.levels, Tasks::Begun, false).await?;
    store::budget::hold(&mut tx, &levels.holds()).await?;
    let passed = levels.passed();
    if !passed.is_empty() {
        for (dispatch, worker) in store::budget::end(&mut tx, &passed).await? {
            let reason = EndReason::RunLimit;
            signals.order(&worker, Control::End { dispatch, reason });
        }
    }
    for run in store::run::running(&mut tx).await? {
        let key = (Level::Run, run.id.0.to_string());
        let limit = Limit {
            cost_usd: run.settings.max_cost_usd,
            tokens: run.settings.max_tokens,
        };
        let used = Used {
            usd: run.used_usd(),
            tokens: run.used_tokens(),
            ..Used::default()
        };
        levels.set.insert(key.clone(), limit);
        levels.used.insert(key, used);
    }
    for told in levels.told() {
        if store::budget::tell(&mut tx, &told).await? {
            tracing::info!(%told, "a part of a limit is used");
        }
    }
    tx.commit().await?;
    Ok(signals)
}

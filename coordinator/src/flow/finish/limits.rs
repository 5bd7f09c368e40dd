//! Checks limits beside a run's once a second: marks those under which nothing may start, ends sessions in
//! order under those that are used up, and notifies people as a limit is used up.

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{Control, EndReason};
use sqlx::PgPool;

use crate::domain::budget::levels::{Level, LevelUsage, Limit};
use crate::domain::states::{FeatureState, TaskState};
use crate::flow::{Settings, Signals, cascade, finish, workers::rescue};
use crate::store;
use crate::store::budget::Tasks;

/// Checks once.
pub async fn tick(db: &PgPool, settings: &Settings) -> sqlx::Result<Signals> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut levels = store::budget::read(&mut tx, &settings.levels, Tasks::Begun, false).await?;
    let holds = levels.holds();
    store::budget::hold(&mut tx, &holds).await?;
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
        let used = LevelUsage {
            usd: run.used_usd(),
            tokens: run.used_tokens(),
            ..LevelUsage::default()
        };
        levels.set.insert(key.clone(), limit);
        levels.used.insert(key, used);
    }
    for notification in levels.notices() {
        if store::budget::tell(&mut tx, &notification).await? {
            tracing::info!(%notification, "a part of a limit is used");
        }
    }
    tx.commit().await?;
    for ((level, name), reason) in holds {
        if let (Level::Task, Ok(id)) = (level, name.parse()) {
            give_up(db, TaskId(id), &reason, &mut signals).await?;
        }
    }
    Ok(signals)
}

/// Sends a task that used up its own limit to a person, or fails it without a review; otherwise its run would
/// wait for ever.
async fn give_up(db: &PgPool, id: TaskId, reason: &str, signals: &mut Signals) -> sqlx::Result<()> {
    let mut tx = db.begin().await?;
    let Some((mut features, mut task)) = cascade::lock_task(&mut tx, id).await? else {
        return Ok(());
    };
    let runs = features
        .values()
        .any(|feature| feature.state == FeatureState::Running);
    if task.state != TaskState::Pending || !runs {
        return Ok(());
    }
    let reviewed = rescue::reviewed(&mut tx, &features)
        .await?
        .contains(&task.feature);
    store::queue::ready::withdraw(&mut tx, &[id.0]).await?;
    rescue::give_up(&mut features, &mut task, reviewed);
    store::task::save(&mut tx, &[&task]).await?;
    let reason = format!("{reason}; then `task retry {id}` continues");
    store::task::explain(&mut tx, id, Some(&reason)).await?;
    if reviewed {
        store::notice::person_needed(&mut tx, id, &reason).await?;
    } else {
        cascade::failed(&mut tx, &mut features, &[(task.feature, id)]).await?;
    }
    finish::check(&mut tx, &mut features, signals).await?;
    cascade::save_features(&mut tx, &features, signals).await?;
    tx.commit().await
}

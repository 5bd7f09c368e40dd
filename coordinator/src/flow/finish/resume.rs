//! Continues a run that ended for a reason which a person has since resolved: a task that waited for them, or
//! a limit.

use std::collections::BTreeSet;

use ralph_shared::ids::FeatureId;
use sqlx::{PgConnection, PgPool};

use crate::domain::budget::limit;
use crate::domain::run::Run;
use crate::domain::states::{FeatureState, RunOutcome, TaskState};
use crate::domain::status::condition::goes_on_after;
use crate::flow::cascade::{self, Features};
use crate::flow::{
    Signals, finish,
    integrate::{self, base_gate},
};
use crate::store;

/// Continues a feature's last run after a person's decision on a task, if it ended to wait for that.
/// `wants_work` means that the person wants the task worked on, or landed.
pub async fn after_decision(
    conn: &mut PgConnection,
    feature: FeatureId,
    wants_work: bool,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let mut features = cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(run) = ended(conn, &features, feature).await? else {
        return Ok(());
    };
    if !run
        .outcome
        .is_some_and(|outcome| goes_on_after(outcome, wants_work))
    {
        return Ok(());
    }
    if let Some(task) = run.only_task
        && !matches!(
            store::task::state_of(conn, task).await?,
            Some(TaskState::Pending | TaskState::InProgress)
        )
    {
        return Ok(());
    }
    // A run in which nothing starts, since it waits for another decision, would end at once.
    let needs_run = store::view::features(conn, &[feature.0])
        .await?
        .first()
        .is_some_and(|view| view.needs_run);
    match needs_run {
        true => continue_run(conn, &mut features, run, signals).await,
        false => Ok(()),
    }
}

/// Continues a feature's last run after its limit was raised. Reads the stored limit.
pub async fn after_raise(
    conn: &mut PgConnection,
    feature: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let mut features = cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(run) = ended(conn, &features, feature).await? else {
        return Ok(());
    };
    let is_held = store::budget::hold_reasons(conn, &[feature.0])
        .await?
        .contains_key(&feature);
    if run.outcome != Some(RunOutcome::LimitReached) || limit::reached(&run).is_some() || is_held {
        return Ok(());
    }
    continue_run(conn, &mut features, run, signals).await
}

/// The last run of a feature without a present run and without a schedule, if it ended.
async fn ended(
    conn: &mut PgConnection,
    features: &Features,
    feature: FeatureId,
) -> sqlx::Result<Option<Run>> {
    let rests = features.get(&feature).is_some_and(|held| {
        matches!(
            held.state,
            FeatureState::Planned | FeatureState::Ready | FeatureState::Failed
        )
    });
    if !rests {
        return Ok(None);
    }
    let last = store::run::last(conn, feature).await?;
    Ok(last.filter(|run| run.ended_at.is_some()))
}

async fn continue_run(
    conn: &mut PgConnection,
    features: &mut Features,
    run: Run,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let feature = run.feature;
    store::run::reopen(conn, run.id).await?;
    if let Some(held) = features.get_mut(&feature) {
        held.begin(run.id);
        tracing::info!(feature = held.name, run = %run.id, "an ended run continues");
        base_gate::ensure(conn, held, &run.settings, base_gate::GateCause::Again, signals).await?;
    }
    cascade::save_features(conn, features, signals).await?;
    signals.got_work(store::queue::ready::enqueue_feature(conn, feature, Some(run.id)).await?);
    integrate::promote(conn, &BTreeSet::from([feature]), signals).await?;
    finish::check(conn, features, signals).await?;
    cascade::save_features(conn, features, signals).await?;
    signals.resumed.push(run.id);
    Ok(())
}

/// Continues the runs of features that their own limit ended, and lifts the hold.
pub async fn of_raised_budget(db: &PgPool, feature: Option<FeatureId>) -> sqlx::Result<Signals> {
    let mut signals = Signals::default();
    let ids = match feature {
        Some(feature) => BTreeSet::from([feature]),
        None => store::run::at_limit(&mut *db.acquire().await?).await?,
    };
    for id in ids {
        let mut tx = db.begin().await?;
        after_raise(&mut tx, id, &mut signals).await?;
        tx.commit().await?;
    }
    Ok(signals)
}

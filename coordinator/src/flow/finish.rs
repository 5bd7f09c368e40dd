//! A run's end: decided from counters, looked at after every change and by a poll (SPEC 3.4, 3.5).

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId};
use ralph_shared::wire::{Control, EndReason};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::cascade::{self, Features};
use super::guard::{guarded, is_away};
use super::steer::{By, Steered};
use super::{Signals, hold, integrate, operate, submit};
use crate::domain::run_end::{self, Decision, Facts};
use crate::domain::states::{FeatureState, RunOutcome};
use crate::store;

/// Ends the runs of held features that are over; the caller writes the features back.
pub async fn check(
    conn: &mut PgConnection,
    features: &mut Features,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    for feature in features.values_mut() {
        let Some(run_id) = feature
            .current_run
            .filter(|_| feature.state == FeatureState::Running)
        else {
            continue;
        };
        let Some(run) = store::run::read(conn, &[run_id.0]).await?.pop() else {
            continue;
        };
        let under_way = store::ready::under_way(conn, feature.id).await?;
        let facts = Facts {
            state: feature.state,
            counts: feature.counts,
            live: under_way.live,
            queued: under_way.queued,
            following_up: under_way.following_up,
            integrating: under_way.integrating,
            now: run.now,
            run: &run,
        };
        match run_end::decide(&facts) {
            Decision::GoOn => {}
            Decision::EndSessions { reason } => {
                let ending = store::dispatch::ask_to_end(conn, feature.id, None, "run_limit").await?;
                tracing::info!(
                    feature = feature.name,
                    reason,
                    sessions = ending.len(),
                    "run limit reached"
                );
                for (dispatch, worker) in ending {
                    signals.order(
                        &worker,
                        Control::End {
                            dispatch,
                            reason: EndReason::RunLimit,
                        },
                    );
                }
            }
            Decision::End {
                outcome: RunOutcome::Complete,
                ..
            } if !run_end::used_up(&facts) && submit::review(conn, feature, signals).await? => {
                tracing::info!(
                    feature = feature.name,
                    "every task is resolved: the feature is reviewed"
                );
            }
            Decision::End {
                outcome: RunOutcome::Complete,
                ..
            } if run_end::hard_limit(&facts).is_none() && operate::finish(conn, feature, signals).await? => {
                tracing::info!(feature = feature.name, "the feature is finished: it is merged");
            }
            Decision::End {
                outcome: RunOutcome::Complete,
                ..
            } if !submit::has_work(conn, feature.id).await? => {
                let reason = "its steps are over, and no tasks came of them";
                tracing::info!(feature = feature.name, reason, "run ended");
                end(conn, feature, RunOutcome::NoPlan, reason).await?;
            }
            Decision::End { outcome, reason } => {
                tracing::info!(
                    feature = feature.name,
                    outcome = outcome.as_str(),
                    reason,
                    "run ended"
                );
                end(conn, feature, outcome, &reason).await?;
            }
        }
    }
    Ok(())
}

async fn end(
    conn: &mut PgConnection,
    feature: &mut store::feature::Locked,
    outcome: RunOutcome,
    reason: &str,
) -> sqlx::Result<()> {
    if let Some(run) = feature.current_run {
        store::run::end(conn, run, outcome, reason).await?;
        store::notice::run_ended(conn, feature.id, run, outcome, reason).await?;
    }
    store::ready::withdraw_feature(conn, feature.id).await?;
    feature.state = outcome.feature_state();
    Ok(())
}

/// A person ends the run (SPEC 3.5): what runs is ended in order and pushed, and another run may go on with what is left.
pub async fn stop(db: &PgPool, id: FeatureId, by: By<'_>) -> sqlx::Result<(Steered, Option<RunId>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        let run = store::run::last(&mut tx, id).await?;
        return Ok((done, run.map(|run| run.id), signals));
    }
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(held) = features.get_mut(&id) else {
        return Ok((Steered::NotFound, None, signals));
    };
    if !matches!(held.state, FeatureState::Running | FeatureState::Paused) {
        let why = format!("can't stop a feature that is {}", held.state.as_str());
        return Ok((Steered::Refused(why), None, signals));
    }
    let run = held.current_run;
    end_sessions(&mut tx, id, &mut signals).await?;
    end(&mut tx, held, RunOutcome::Interrupted, "a person stopped the run").await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((Steered::Done(1), run, signals))
}

/// Tells what runs to end; what it did is pushed.
async fn end_sessions(
    conn: &mut PgConnection,
    feature: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    for (dispatch, worker) in store::dispatch::ask_to_end(conn, feature, None, "interrupted").await? {
        signals.order(
            &worker,
            Control::End {
                dispatch,
                reason: EndReason::Interrupted,
            },
        );
    }
    Ok(())
}

/// `<promise>FAILURE</promise>`: the run ends with Failure, and what runs is interrupted and pushed (SPEC 3.5).
pub async fn promise_failure(
    conn: &mut PgConnection,
    features: &mut Features,
    feature: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let Some(held) = features.get_mut(&feature) else {
        return Ok(());
    };
    if held.state != FeatureState::Running {
        return Ok(());
    }
    end_sessions(conn, feature, signals).await?;
    end(
        conn,
        held,
        RunOutcome::Failure,
        "an agent promised that the feature can't be done",
    )
    .await
}

/// Looks at every running feature: limits that time alone reaches, and ends that a lost signal hid. One that can't be looked
/// at keeps nobody from the others. Returns how many it looked at.
pub async fn tick(db: &PgPool) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    let mut conn = db.acquire().await?;
    let running = store::feature::running(&mut conn).await?;
    drop(conn);
    let mut looked_at = 0;
    for id in running {
        match guarded(look(db, id)).await {
            Ok(more) => {
                looked_at += 1;
                signals.merge(more);
            }
            // What was found before is told all the same.
            Err(error) if is_away(&error) && looked_at > 0 => {
                tracing::warn!(%error, "the other features are looked at later");
                break;
            }
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, feature = %id, "a feature can't be looked at; the others go on");
            }
        }
    }
    Ok((looked_at, signals))
}

async fn look(db: &PgPool, id: Uuid) -> sqlx::Result<Signals> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([FeatureId(id)])).await?;
    let before: Vec<_> = features.values().map(|f| (f.state, f.counts)).collect();
    // A poll makes it right: what may begin or land by now, and nobody was told of.
    if features.values().any(|feature| feature.avoid_conflicts) {
        hold::release(&mut tx, &[id], &mut signals).await?;
    }
    integrate::promote(&mut tx, &BTreeSet::from([FeatureId(id)]), &mut signals).await?;
    check(&mut tx, &mut features, &mut signals).await?;
    if features.values().map(|f| (f.state, f.counts)).ne(before) {
        cascade::save_features(&mut tx, &features, &mut signals).await?;
    }
    tx.commit().await?;
    Ok(signals)
}

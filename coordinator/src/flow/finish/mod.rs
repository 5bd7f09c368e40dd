//! Decides a run's end from counters, after every change and in a poll (SPEC 3.4, 3.5).

pub mod limits;
pub mod resume;

use std::collections::{BTreeSet, HashMap};

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::wire::{Control, EndReason, GitOperation};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::cascade::{self, Features};
use super::guard::{guarded, is_away};
use super::{Signals, integrate, submit};
use crate::domain::gate;
use crate::domain::run::Run;
use crate::domain::run::end::{self, Decision, Facts};
use crate::domain::states::{FeatureState, RunOutcome, TaskState};
use crate::domain::status::suggestion::{self, FeatureVerb};
use crate::flow::control::{By, CommandOutcome};
use crate::flow::{claim::path_holds, integrate::operations};
use crate::store;
use crate::store::feature::Locked;
use crate::store::git::gate::OpenCheck;

/// Ends the runs of locked features that are over; the caller writes the features back.
pub async fn check(
    conn: &mut PgConnection,
    features: &mut Features,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let running = features
        .values()
        .filter(|feature| feature.state == FeatureState::Running);
    let (ids, runs): (Vec<Uuid>, Vec<Uuid>) = running
        .filter_map(|feature| Some((feature.id.0, feature.current_run?.0)))
        .unzip();
    if ids.is_empty() {
        return Ok(());
    }
    let runs = store::run::read(conn, &runs).await?;
    let under_way = store::queue::ready::under_way(conn, &ids).await?;
    let checks = open_checks(conn, features).await?;
    let held = store::budget::hold_reasons(conn, &ids).await?;
    for run in runs {
        let only = only_task(conn, &run).await?;
        let (Some(feature), Some(under_way)) = (features.get_mut(&run.feature), under_way.get(&run.feature))
        else {
            continue;
        };
        let facts = Facts {
            state: feature.state,
            counts: feature.counts,
            live: under_way.live,
            queued: under_way.queued,
            following_up: under_way.following_up,
            integrating: under_way.integrating,
            gate: checks
                .get(&run.feature)
                .filter(|check| check.waits)
                .map(why_nothing_lands),
            held: held.get(&run.feature).cloned(),
            only,
            now: run.now,
            run: &run,
        };
        decide(conn, feature, &facts, signals).await?;
    }
    Ok(())
}

/// Checks of the base commit in features where something waits for a person or failed.
async fn open_checks(
    conn: &mut PgConnection,
    features: &Features,
) -> sqlx::Result<HashMap<FeatureId, OpenCheck>> {
    let troubled = features.values().filter(|feature| {
        let waits = feature.counts.of(TaskState::NeedsReview) + feature.counts.of(TaskState::Failed) > 0;
        feature.has_repository && feature.state == FeatureState::Running && waits
    });
    let troubled: Vec<Uuid> = troubled.map(|feature| feature.id.0).collect();
    match troubled[..] {
        [] => Ok(HashMap::new()),
        _ => store::git::gate::open(conn, &troubled).await,
    }
}

async fn only_task(conn: &mut PgConnection, run: &Run) -> sqlx::Result<Option<(TaskId, TaskState)>> {
    let Some(task) = run.only_task else {
        return Ok(None);
    };
    let state = store::task::state_of(conn, task).await?;
    Ok(Some((task, state.unwrap_or(TaskState::Cancelled))))
}

async fn decide(
    conn: &mut PgConnection,
    feature: &mut Locked,
    facts: &Facts<'_>,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    match end::decide(facts) {
        Decision::GoOn => {}
        Decision::EndSessions { reason } => {
            let sessions = end_sessions(conn, feature.id, None, EndReason::RunLimit, signals).await?;
            tracing::info!(feature = feature.name, reason, sessions, "run limit reached");
        }
        Decision::End {
            outcome: RunOutcome::Complete,
            reason,
        } if facts.only.is_none() || is_over(feature) => {
            complete(conn, feature, facts, &reason, signals).await?;
        }
        Decision::End { outcome, reason } => {
            tracing::info!(
                feature = feature.name,
                outcome = outcome.into_str(),
                reason,
                "run ended"
            );
            end(conn, feature, outcome, &reason, signals).await?;
            if facts.only.is_some() && (outcome == RunOutcome::Complete || feature.counts.open() > 0) {
                feature.state = FeatureState::Ready;
            }
        }
    }
    Ok(())
}

fn is_over(feature: &Locked) -> bool {
    let count = |state| feature.counts.of(state);
    feature.counts.open() + count(TaskState::Failed) + count(TaskState::NeedsReview) == 0
}

/// Why no attempt of a feature can land, when only a person can help.
fn why_nothing_lands(check: &OpenCheck) -> String {
    let commit = match &check.operation {
        GitOperation::Check { commit, .. } => gate::short(commit),
        _ => "",
    };
    if check.fails {
        format!("the gate fails on the base commit {commit}")
    } else {
        format!("the gate could not be tried on the base commit {commit}")
    }
}

/// Every task is resolved: continues with a due review, then with a requested merge, then ends the run.
async fn complete(
    conn: &mut PgConnection,
    feature: &mut Locked,
    facts: &Facts<'_>,
    reason: &str,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let name = feature.name.clone();
    let (outcome, reason) = match submit::review_due(conn, feature).await? {
        Some(newest) if facts.only.is_none() && !end::used_up(facts) => {
            tracing::info!(feature = name, "every task is resolved: the feature is reviewed");
            return submit::review(conn, feature, newest, signals).await;
        }
        // The review comes before the merge.
        Some(_) => {
            let why = format!(
                "{reason}, but the run may not continue with the due review; `feature review {name}` begins it"
            );
            (RunOutcome::Complete, why)
        }
        None => match operations::merge_due(conn, feature).await? {
            Some(due) if facts.only.is_none() && end::hard_limit(facts).is_none() => {
                tracing::info!(feature = name, "the feature is finished: it is merged");
                return operations::finish(conn, feature, due, signals).await;
            }
            Some(due) => {
                let how = due.how;
                let why = format!(
                    "{reason}, but the run may not continue with the merge; `feature merge {name} --how {how}` does it"
                );
                (RunOutcome::Complete, why)
            }
            None if submit::has_work(conn, feature.id).await? => (RunOutcome::Complete, reason.to_owned()),
            None => (
                RunOutcome::NoPlan,
                "its steps are over and made no tasks".to_owned(),
            ),
        },
    };
    tracing::info!(feature = name, outcome = outcome.into_str(), reason, "run ended");
    end(conn, feature, outcome, &reason, signals).await
}

async fn end(
    conn: &mut PgConnection,
    feature: &mut Locked,
    outcome: RunOutcome,
    reason: &str,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    if let Some(run) = feature.current_run {
        store::run::end(conn, run, outcome, reason).await?;
        store::notice::run_ended(conn, feature.id, run, outcome, reason).await?;
        signals.ended_runs.push(run);
    }
    let asked = match outcome {
        RunOutcome::LimitReached => EndReason::RunLimit,
        _ => EndReason::Interrupted,
    };
    empty(conn, feature.id, asked, signals).await?;
    feature.state = outcome.feature_state();
    Ok(())
}

/// Takes a locked feature's tasks out of the queue and ends its sessions in order. Claims hold no lock on the
/// feature. The first statement waits for a claim under way, so that the second one sees its result.
pub(super) async fn empty(
    conn: &mut PgConnection,
    feature: FeatureId,
    reason: EndReason,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    store::queue::ready::withdraw_feature(conn, feature).await?;
    end_sessions(conn, feature, None, reason, signals).await.map(drop)
}

/// Asks the sessions of a feature, or of one task, to end in order; their work is pushed and reported.
/// Returns their number.
pub(super) async fn end_sessions(
    conn: &mut PgConnection,
    feature: FeatureId,
    task: Option<TaskId>,
    reason: EndReason,
    signals: &mut Signals,
) -> sqlx::Result<usize> {
    let ending = store::dispatch::lease::request_end(conn, feature, task, reason).await?;
    for (dispatch, worker) in &ending {
        let dispatch = *dispatch;
        signals.order(worker, Control::End { dispatch, reason });
    }
    Ok(ending.len())
}

/// A person ends the run (SPEC 3.5). Sessions end in order and push, and another run may continue the work.
pub async fn stop(
    db: &PgPool,
    id: FeatureId,
    by: By<'_>,
) -> sqlx::Result<(CommandOutcome, Option<RunId>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        let run = store::run::last(&mut tx, id).await?;
        return Ok((done, run.map(|run| run.id), signals));
    }
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(held) = features.get_mut(&id) else {
        return Ok((CommandOutcome::NotFound, None, signals));
    };
    if !matches!(held.state, FeatureState::Running | FeatureState::Paused) {
        let why = suggestion::of_feature(FeatureVerb::Stop, held.state, &held.name);
        return Ok((CommandOutcome::Refused(why), None, signals));
    }
    let run = held.current_run;
    let why = "a person stopped the run";
    end(&mut tx, held, RunOutcome::Interrupted, why, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), run, signals))
}

/// `<promise>FAILURE</promise>` ends the run with Failure; sessions are interrupted and pushed (SPEC 3.5).
pub async fn promise_failure(
    conn: &mut PgConnection,
    features: &mut Features,
    feature: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let Some(held) = features.get_mut(&feature) else {
        return Ok(());
    };
    // Sessions of a paused feature continue, and may find out.
    if !matches!(held.state, FeatureState::Running | FeatureState::Paused) {
        return Ok(());
    }
    end(conn, held, RunOutcome::Failure, end::GIVEN_UP, signals).await
}

/// Checks every running feature: for limits that time alone reaches, and for ends whose signal was lost. A
/// failing feature does not block the others. Returns the number of checked features.
pub async fn tick(db: &PgPool) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    let mut conn = db.acquire().await?;
    signals
        .features
        .extend(store::feature::priority::tell_late(&mut conn).await?);
    let running = store::feature::running(&mut conn).await?;
    drop(conn);
    let mut features_checked = 0;
    for id in running {
        match guarded(check_feature(db, id)).await {
            Ok(more) => {
                features_checked += 1;
                signals.merge(more);
            }
            // Earlier findings are still announced.
            Err(error) if is_away(&error) && features_checked > 0 => {
                tracing::warn!(%error, "the other features are checked later");
                break;
            }
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, feature = %id, "a feature can't be checked; the others continue");
            }
        }
    }
    Ok((features_checked, signals))
}

async fn check_feature(db: &PgPool, id: Uuid) -> sqlx::Result<Signals> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([FeatureId(id)])).await?;
    let before: Vec<_> = features.values().map(|f| (f.state, f.counts)).collect();
    // The poll finds tasks that may start or land without a signal.
    path_holds::release(&mut tx, &features, &mut signals).await?;
    crate::flow::integrate::base_gate::reuse_pass(&mut tx, &mut features, FeatureId(id), &mut signals)
        .await?;
    integrate::promote(&mut tx, &BTreeSet::from([FeatureId(id)]), &mut signals).await?;
    check(&mut tx, &mut features, &mut signals).await?;
    if features.values().map(|f| (f.state, f.counts)).ne(before) {
        cascade::save_features(&mut tx, &features, &mut signals).await?;
    }
    tx.commit().await?;
    Ok(signals)
}

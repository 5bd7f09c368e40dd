//! Applies a batch of reports in one transaction, and handles its failure.

use std::collections::{BTreeSet, HashMap};

use ralph_shared::ids::{DispatchId, FeatureId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{EndReason, Ended, Finished, IntegrationEnd, IntegrationReport};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::super::guard::{guarded, is_away};
use super::super::{Settings, Signals, cascade};
use super::batch::Batch;
use super::incoming::{DispatchOrigin, Incoming, ReportFate};
use super::origin::{Sender, may_report, strangers};
use crate::domain::failure::silence;
use crate::faults;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};

/// Applies reports. Returns the fate of each, in order, and signals for others. Settle workers after a
/// [`store::flush`].
///
/// # Errors
/// When the database cannot be reached. Then no change is known, and the reports arrive again.
pub async fn apply(
    db: &PgPool,
    settings: &Settings,
    batch: &[Incoming],
) -> sqlx::Result<(Vec<ReportFate>, Signals)> {
    match apply_batch(db, settings, batch, Memory::Stored).await {
        Ok(applied) => Ok(applied),
        Err(error) if is_away(&error) => Err(error),
        Err(error) if batch.len() > 1 => {
            tracing::warn!(%error, reports = batch.len(), "batch of reports failed; applying them one by one");
            let mut fates = Vec::with_capacity(batch.len());
            let mut signals = Signals::default();
            for one in batch {
                match Box::pin(apply(db, settings, std::slice::from_ref(one))).await {
                    Ok((fate, more)) => {
                        fates.extend(fate);
                        signals.merge(more);
                    }
                    Err(error) if is_away(&error) => return Err(error),
                    Err(error) => {
                        tracing::error!(%error, dispatch = %one.report.dispatch, "report is stuck; the others continue");
                        fates.push(ReportFate::Stuck);
                    }
                }
            }
            Ok((fates, signals))
        }
        Err(error) => {
            let Some(poisoned) = batch.first() else {
                return Ok((Vec::new(), Signals::default()));
            };
            if let Some(applied) = without_memory(db, settings, poisoned, &error).await? {
                return Ok(applied);
            }
            let signals = set_aside(db, settings, poisoned, &error).await?;
            Ok((vec![ReportFate::Poisoned], signals))
        }
    }
}

/// No failure of one report may stop the others.
async fn apply_batch(
    db: &PgPool,
    settings: &Settings,
    batch: &[Incoming],
    memory: Memory,
) -> sqlx::Result<(Vec<ReportFate>, Signals)> {
    guarded(store::retry_serialization(|| {
        in_one_transaction(db, settings, batch, memory)
    }))
    .await
}

/// The fate of memory entries in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// They are stored, and released with their task.
    Stored,
    /// They could not be stored or released. The work counts without them; upkeep releases the quarantined
    /// ones later.
    Omitted,
}

/// Applies a report without its memory entries, when only these fail: landed work stays landed, whatever an
/// agent learned. Keeps the whole report raw. `None` when something else fails.
async fn without_memory(
    db: &PgPool,
    settings: &Settings,
    one: &Incoming,
    cause: &sqlx::Error,
) -> sqlx::Result<Option<(Vec<ReportFate>, Signals)>> {
    let applied = match apply_batch(db, settings, std::slice::from_ref(one), Memory::Omitted).await {
        Ok(applied) => applied,
        Err(error) if is_away(&error) => return Err(error),
        Err(_) => return Ok(None),
    };
    let dispatch = one.report.dispatch;
    tracing::error!(%cause, %dispatch, "memory entries of a report could not be stored; the report itself counts");
    keep_raw(db, one, &format!("applied without its memory entries: {cause}")).await?;
    Ok(Some(applied))
}

async fn keep_raw(db: &PgPool, one: &Incoming, why: &str) -> sqlx::Result<()> {
    let body = serde_json::to_vec(&one.report).unwrap_or_default();
    let mut conn = db.acquire().await?;
    store::blob::keep_bad_report(&mut conn, Some(one.report.dispatch), why, &body).await
}

/// Keeps an unusable report raw, and ends its attempt with an error that quotes the cause.
async fn set_aside(
    db: &PgPool,
    settings: &Settings,
    poisoned: &Incoming,
    cause: &sqlx::Error,
) -> sqlx::Result<Signals> {
    let dispatch = poisoned.report.dispatch;
    tracing::error!(%cause, %dispatch, "report could not be applied; kept in bad_reports");
    keep_raw(db, poisoned, &cause.to_string()).await?;
    let sender = Sender::from(&poisoned.report);
    if !may_report(&mut *db.acquire().await?, &sender, dispatch).await? {
        return Ok(Signals::default());
    }
    end_as_error(
        db,
        settings,
        dispatch,
        format!("its report could not be applied: {cause}"),
    )
    .await
}

/// Ends the attempt of a dispatch with an unusable report. Otherwise the dispatch would stay leased as long
/// as its worker lives. Ignores unknown dispatches. Signal others after a [`store::flush`].
pub async fn end_as_error(
    db: &PgPool,
    settings: &Settings,
    dispatch: DispatchId,
    message: String,
) -> sqlx::Result<Signals> {
    let mut conn = db.acquire().await?;
    let known = store::dispatch::read(&mut conn, &[dispatch.0]).await?.pop();
    drop(conn);
    let Some(known) = known else {
        return Ok(Signals::default());
    };
    let report = [Incoming::broken(&known, message)];
    Ok(
        store::retry_serialization(|| in_one_transaction(db, settings, &report, Memory::Stored))
            .await?
            .1,
    )
}

async fn in_one_transaction(
    db: &PgPool,
    settings: &Settings,
    incoming: &[Incoming],
    memory: Memory,
) -> sqlx::Result<(Vec<ReportFate>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = store::begin_unflushed(db).await?;
    let fates = within(&mut tx, settings, incoming, memory, &mut signals).await?;
    faults::point("report.before_commit");
    tx.commit().await?;
    faults::point("report.after_commit");
    Ok((fates, signals))
}

/// Everything but the commit.
async fn within(
    tx: &mut PgConnection,
    settings: &Settings,
    incoming: &[Incoming],
    memory: Memory,
    signals: &mut Signals,
) -> sqlx::Result<Vec<ReportFate>> {
    let ids: Vec<Uuid> = incoming.iter().map(|one| one.report.dispatch.0).collect();
    let origins = origins(tx, incoming, &ids).await?;
    let mut batch = lock_and_read(tx, &origins).await?;
    // While the features are locked, only this transaction changes their dispatches and runs.
    let dispatches = store::dispatch::read(tx, &ids).await?;
    let mut dispatches: HashMap<DispatchId, Dispatch> = dispatches.into_iter().map(|d| (d.id, d)).collect();
    let strangers = strangers(tx, incoming, &dispatches).await?;
    read_history(tx, &mut batch, incoming, &dispatches).await?;
    let mut fates = Vec::with_capacity(incoming.len());
    for (at, one) in incoming.iter().enumerate() {
        fates.push(match dispatches.get_mut(&one.report.dispatch) {
            None => ReportFate::Unknown,
            Some(_) if strangers.contains(&at) => ReportFate::Foreign,
            Some(dispatch) => take(&mut batch, settings, dispatch, one),
        });
    }
    batch.write(tx, settings, memory, signals).await?;
    Ok(fates)
}

async fn origins(
    conn: &mut PgConnection,
    incoming: &[Incoming],
    ids: &[Uuid],
) -> sqlx::Result<Vec<DispatchOrigin>> {
    let known = incoming
        .iter()
        .map(|one| one.known.as_ref().map(|known| known.place));
    if let Some(known) = known.collect() {
        return Ok(known);
    }
    let read = store::dispatch::read(conn, ids).await?;
    Ok(read.iter().map(DispatchOrigin::from).collect())
}

async fn lock_and_read(tx: &mut PgConnection, origins: &[DispatchOrigin]) -> sqlx::Result<Batch> {
    let features: BTreeSet<FeatureId> = origins.iter().map(|d| d.feature).collect();
    let features = cascade::lock_features(tx, &features).await?;
    let task_ids: Vec<Uuid> = origins.iter().map(|d| d.task.0).collect();
    let current = features.values().filter_map(|feature| feature.current_run);
    let run_ids: Vec<Uuid> = origins
        .iter()
        .map(|d| d.run)
        .chain(current)
        .map(|run| run.0)
        .collect();
    let tasks = store::task::lock(tx, &task_ids).await?;
    let runs = store::run::read(tx, &run_ids).await?;
    let integrating = origins.iter().filter(|d| {
        matches!(
            d.kind,
            SessionKind::Integrate | SessionKind::Verify | SessionKind::Check
        )
    });
    let integrating: Vec<Uuid> = integrating.map(|d| d.task.0).collect();
    let integrations = store::git::integration::open_of_tasks(tx, &integrating).await?;
    let operating = tasks
        .iter()
        .filter(|task| matches!(task.role, SessionKind::Git | SessionKind::Check));
    let operating: Vec<Uuid> = operating.map(|task| task.id.0).collect();
    let operations = store::git::operation::of_tasks(tx, &operating).await?;
    Ok(Batch {
        features,
        runs: runs.into_iter().map(|run| (run.id, run)).collect(),
        tasks: tasks.into_iter().map(|task| (task.id, task)).collect(),
        integrations: integrations.into_iter().map(|i| (i.task, i)).collect(),
        operations,
        ..Batch::default()
    })
}

/// Reads facts that few reports need: past results of the gate, open questions and empty turns.
async fn read_history(
    conn: &mut PgConnection,
    batch: &mut Batch,
    incoming: &[Incoming],
    dispatches: &HashMap<DispatchId, Dispatch>,
) -> sqlx::Result<()> {
    for one in incoming {
        if let Finished::Integration(IntegrationReport {
            end: IntegrationEnd::GateFailed { .. },
            ..
        }) = &one.report.finished
            && let Some(of) = dispatches.get(&one.report.dispatch)
            && of.kind == SessionKind::Integrate
        {
            let history = store::git::gate::history(conn, of.feature, of.task).await?;
            batch.histories.insert(of.task, history);
        }
    }
    let unanswered = unanswered(incoming);
    if !unanswered.is_empty() {
        batch.unanswered = store::question::unanswered(conn, &unanswered).await?;
    }
    let silent = silent_accounts(incoming);
    if !silent.is_empty() {
        batch.silences = store::availability::silences(conn, &silent).await?;
    }
    Ok(())
}

fn take(batch: &mut Batch, settings: &Settings, dispatch: &mut Dispatch, one: &Incoming) -> ReportFate {
    let fate = batch.take(settings, dispatch, one);
    // When one batch has the same report twice, the second one finds the dispatch over.
    match fate {
        ReportFate::Applied => dispatch.state = DispatchState::Settled,
        ReportFate::Superseded => dispatch.state = DispatchState::Superseded,
        _ => {}
    }
    dispatch.reported = true;
    if let Some(end) = batch.ends.iter().rfind(|end| end.id == dispatch.id) {
        dispatch.outcome = Some(end.outcome);
        dispatch.pushed = end.pushed_ref.is_some();
    }
    fate
}

fn unanswered(incoming: &[Incoming]) -> Vec<Uuid> {
    let ended = incoming.iter().filter(|one| {
        matches!(&one.report.finished, Finished::Session(session)
            if session.ended == Ended::Told { reason: EndReason::Unanswered })
    });
    ended.map(|one| one.report.dispatch.0).collect()
}

/// The accounts of empty turns; most batches have none.
fn silent_accounts(incoming: &[Incoming]) -> Vec<String> {
    let accounts = incoming.iter().filter_map(|one| match &one.report.finished {
        Finished::Session(session) if silence::is_empty(session, &one.text) => Some(&session.agent.account),
        _ => None,
    });
    let accounts: BTreeSet<&String> = accounts.collect();
    accounts.into_iter().cloned().collect()
}

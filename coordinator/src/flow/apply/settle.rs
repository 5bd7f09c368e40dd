//! A batch of reports in one transaction, and what happens when that fails.

use std::collections::{BTreeSet, HashMap};

use ralph_shared::ids::{DispatchId, FeatureId};
use ralph_shared::wire::{Ended, Finished, IntegrationEnd, IntegrationReport, Report, SessionReport};
use sqlx::PgPool;
use uuid::Uuid;

use super::super::{Settings, Signals, cascade};
use super::batch::Batch;
use crate::domain::states::Kind;
use crate::faults;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};

/// A report with its text in hand.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The report.
    pub report: Report,
    /// The agent's whole message text.
    pub text: String,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It changed its task, now or when it came before.
    Applied,
    /// The fence had moved: stored, nothing else.
    Superseded,
    /// Its dispatch is not known here.
    Unknown,
    /// It could not be applied even alone; kept raw, its attempt ended as an error.
    Poisoned,
}

/// Applies reports. Returns each one's fate, in order, and what others want to know.
///
/// # Errors
/// When the database can't be reached: nothing is known to have changed, and the reports come again.
pub async fn apply(
    db: &PgPool,
    settings: &Settings,
    batch: &[Incoming],
) -> sqlx::Result<(Vec<Fate>, Signals)> {
    match store::retry_serialization(|| in_one_transaction(db, settings, batch)).await {
        Ok(applied) => Ok(applied),
        Err(error) if is_unreachable(&error) => Err(error),
        Err(error) if batch.len() > 1 => {
            tracing::warn!(%error, reports = batch.len(), "batch of reports failed; applying them one by one");
            let mut fates = Vec::with_capacity(batch.len());
            let mut signals = Signals::default();
            for one in batch {
                let (fate, more) = Box::pin(apply(db, settings, std::slice::from_ref(one))).await?;
                fates.extend(fate);
                signals.merge(more);
            }
            Ok((fates, signals))
        }
        Err(error) => {
            let Some(poisoned) = batch.first() else {
                return Ok((Vec::new(), Signals::default()));
            };
            let signals = set_aside(db, settings, poisoned, &error).await?;
            Ok((vec![Fate::Poisoned], signals))
        }
    }
}

fn is_unreachable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        // Class 57: the server shuts down or starts; 08: the connection broke; 53: out of connections, memory or disk.
        sqlx::Error::Database(e) => e.code().is_some_and(|code| {
            ["57", "08", "53", "40"]
                .iter()
                .any(|class| code.starts_with(class))
        }),
        _ => false,
    }
}

/// Keeps a report raw that can't be applied, and ends its attempt with an error that says so.
async fn set_aside(
    db: &PgPool,
    settings: &Settings,
    poisoned: &Incoming,
    cause: &sqlx::Error,
) -> sqlx::Result<Signals> {
    let dispatch = poisoned.report.dispatch;
    tracing::error!(%cause, %dispatch, "report could not be applied; kept in bad_reports");
    let body = serde_json::to_vec(&poisoned.report).unwrap_or_default();
    let mut conn = db.acquire().await?;
    store::blob::keep_bad_report(&mut conn, Some(dispatch.0), &cause.to_string(), &body).await?;
    drop(conn);
    let message = format!("its report could not be applied: {cause}");
    let finished = match &poisoned.report.finished {
        Finished::Session(_) => Finished::Session(Box::new(SessionReport {
            ended: Ended::Protocol { message },
            text: Default::default(),
            text_truncated: false,
            usage: Default::default(),
            tool_calls: 0,
            agent: Default::default(),
            snapshot: Default::default(),
            attempted: Vec::new(),
            last_tool_error: None,
            stderr_tail: String::new(),
        })),
        Finished::Integration(_) => Finished::Integration(IntegrationReport {
            end: IntegrationEnd::Failed { message, retry: true },
        }),
    };
    let plain = Incoming {
        report: Report {
            finished,
            ..poisoned.report.clone()
        },
        text: String::new(),
    };
    Ok(in_one_transaction(db, settings, &[plain]).await?.1)
}
async fn in_one_transaction(
    db: &PgPool,
    settings: &Settings,
    incoming: &[Incoming],
) -> sqlx::Result<(Vec<Fate>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let ids: Vec<Uuid> = incoming.iter().map(|one| one.report.dispatch.0).collect();
    let named = store::dispatch::read(&mut tx, &ids).await?;
    let features: BTreeSet<FeatureId> = named.iter().map(|d| d.feature).collect();
    let features = cascade::lock_features(&mut tx, &features).await?;
    let task_ids: Vec<Uuid> = named.iter().map(|d| d.task.0).collect();
    let tasks = store::task::lock(&mut tx, &task_ids).await?;
    let mut dispatches: HashMap<DispatchId, Dispatch> = store::dispatch::lock(&mut tx, &ids)
        .await?
        .into_iter()
        .map(|d| (d.id, d))
        .collect();
    let run_ids: Vec<Uuid> = named.iter().map(|d| d.run.0).collect();
    let runs = store::run::read(&mut tx, &run_ids).await?;
    let integrating: Vec<Uuid> = named
        .iter()
        .filter(|d| d.kind == Kind::Integrate)
        .map(|d| d.task.0)
        .collect();
    let integrations = if integrating.is_empty() {
        Vec::new()
    } else {
        store::integration::open_of_tasks(&mut tx, &integrating).await?
    };
    let mut batch = Batch::new(settings, features, runs, tasks, integrations);
    let mut fates = Vec::with_capacity(incoming.len());
    for one in incoming {
        let fate = match dispatches.get_mut(&one.report.dispatch) {
            None => Fate::Unknown,
            Some(dispatch) => {
                let fate = batch.take(dispatch, one);
                // The same report twice in one batch: the second finds it over.
                if fate == Fate::Applied {
                    dispatch.state = DispatchState::Settled;
                }
                fate
            }
        };
        fates.push(fate);
    }
    batch.write(&mut tx, &mut signals).await?;
    faults::point("report.before_commit");
    tx.commit().await?;
    faults::point("report.after_commit");
    Ok((fates, signals))
}

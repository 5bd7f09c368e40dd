//! A report on its way into its task, and the facts that are read before its transaction.

use std::collections::HashMap;
use std::sync::Arc;

use ralph_shared::at_length::by_length;
use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Sigils};
use ralph_shared::wire::{Ended, Finished, IntegrationEnd, Report, SessionReport, WRITES};
use sqlx::PgPool;
use uuid::Uuid;

use super::super::Settings;
use super::super::guard::guarded;
use crate::store;
use crate::store::dispatch::Dispatch;

/// A report with its text.
#[derive(Debug, Clone)]
pub struct Incoming {
    pub report: Report,
    /// The agent's whole message text.
    pub text: String,
    /// Facts that were read before its transaction.
    pub(super) known: Option<DispatchFacts>,
}

/// Facts of a dispatch that never change.
#[derive(Debug, Clone, Copy)]
pub(super) struct DispatchOrigin {
    pub task: TaskId,
    pub feature: FeatureId,
    pub run: RunId,
    pub kind: SessionKind,
}

impl From<&Dispatch> for DispatchOrigin {
    fn from(dispatch: &Dispatch) -> Self {
        Self {
            task: dispatch.task,
            feature: dispatch.feature,
            run: dispatch.run,
            kind: dispatch.kind,
        }
    }
}

/// The place of its dispatch, and the sigils of its text.
#[derive(Debug, Clone)]
pub(super) struct DispatchFacts {
    pub place: DispatchOrigin,
    sigils: Arc<Sigils>,
}

impl Incoming {
    /// A report with the whole text of its agent.
    pub fn new(report: Report, text: String) -> Self {
        Self {
            report,
            text,
            known: None,
        }
    }

    /// The replacement for an unusable report.
    pub(super) fn broken(dispatch: &Dispatch, message: String) -> Self {
        let finished = match dispatch.kind {
            kind if !kind.has_agent() => Finished::Integration(
                IntegrationEnd::Failed {
                    message,
                    retry: true,
                    away: false,
                }
                .into(),
            ),
            _ => Finished::Session(Box::new(SessionReport::new(Ended::Protocol { message }))),
        };
        let report = Report {
            v: WRITES,
            dispatch: dispatch.id,
            worker: dispatch.worker.clone(),
            incarnation: dispatch.incarnation,
            duration_ms: 0,
            finished,
        };
        Self::new(report, String::new())
    }

    pub(super) fn sigils(&self, settings: &Settings, dispatch: &Dispatch) -> Arc<Sigils> {
        match &self.known {
            Some(known) => Arc::clone(&known.sigils),
            None => Arc::new(parse_sigils(settings, DispatchOrigin::from(dispatch), &self.text)),
        }
    }
}

fn parse_sigils(settings: &Settings, place: DispatchOrigin, text: &str) -> Sigils {
    let context = sigil::Context {
        kind: place.kind,
        task_id: &place.task.short(),
        model_tiers: &settings.tiers.names(),
    };
    by_length(text.len(), || sigil::parse(text, &context))
}

/// Parses the texts of reports before their transaction, which needs no lock, so that the transaction has
/// less to do while it holds locks. Reports without known facts stay as they are. So do an unreadable report
/// and those behind it; the transaction isolates it.
pub async fn prepare(db: &PgPool, settings: &Settings, batch: &mut [Incoming]) -> sqlx::Result<()> {
    guarded(read_texts(db, settings, batch)).await
}

async fn read_texts(db: &PgPool, settings: &Settings, batch: &mut [Incoming]) -> sqlx::Result<()> {
    let ids: Vec<Uuid> = batch.iter().map(|one| one.report.dispatch.0).collect();
    let read = store::dispatch::read(&mut *db.acquire().await?, &ids).await?;
    let places: HashMap<DispatchId, DispatchOrigin> = read
        .iter()
        .map(|one| (one.id, DispatchOrigin::from(one)))
        .collect();
    for one in batch {
        if let Some(&place) = places.get(&one.report.dispatch) {
            one.known = Some(DispatchFacts {
                sigils: Arc::new(parse_sigils(settings, place, &one.text)),
                place,
            });
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFate {
    /// It changed its task, now or earlier.
    Applied,
    /// The fence had moved: the report is stored and changes nothing.
    Superseded,
    /// Its dispatch is not known here.
    Unknown,
    /// Its sender does not hold its dispatch, so it is ignored.
    Foreign,
    /// It could not be applied even alone. It is kept raw, and its attempt ended as an error.
    Poisoned,
    /// Not even that could be written; it will arrive again.
    Stuck,
}

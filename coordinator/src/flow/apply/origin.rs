//! Checks the sender of a report. Every worker may publish reports, and all may share one user of the broker.
//! Without this check, one could settle the work of the others. Only an incarnation and the coordinators know
//! the incarnation's id.

use std::collections::{HashMap, HashSet};

use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::wire::Report;
use serde::Deserialize;
use sqlx::PgConnection;

use super::incoming::Incoming;
use crate::store;
use crate::store::dispatch::Dispatch;

/// The sender that a report claims.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sender {
    worker: String,
    incarnation: Incarnation,
}

impl From<&Report> for Sender {
    fn from(report: &Report) -> Self {
        Self {
            worker: report.worker.clone(),
            incarnation: report.incarnation,
        }
    }
}

/// Whether a dispatch is known and belongs to the sender.
pub async fn may_report(
    conn: &mut PgConnection,
    sender: &Sender,
    dispatch: DispatchId,
) -> sqlx::Result<bool> {
    match store::dispatch::read(conn, &[dispatch.0]).await?.pop() {
        Some(dispatch) => holds(conn, (&sender.worker, sender.incarnation), &dispatch).await,
        None => Ok(false),
    }
}

/// Indexes of reports whose sender does not hold their dispatch.
pub(super) async fn strangers(
    conn: &mut PgConnection,
    incoming: &[Incoming],
    dispatches: &HashMap<DispatchId, Dispatch>,
) -> sqlx::Result<HashSet<usize>> {
    let mut strangers = HashSet::new();
    for (at, Incoming { report, .. }) in incoming.iter().enumerate() {
        if let Some(dispatch) = dispatches.get(&report.dispatch)
            && !holds(conn, (&report.worker, report.incarnation), dispatch).await?
        {
            strangers.insert(at);
        }
    }
    Ok(strangers)
}

/// A dispatch belongs to the incarnation that holds it, or to the one that now has the worker's name and the
/// same data folder. The latter reports for earlier ones.
async fn holds(
    conn: &mut PgConnection,
    (worker, incarnation): (&str, Incarnation),
    dispatch: &Dispatch,
) -> sqlx::Result<bool> {
    if worker != dispatch.worker {
        return Ok(false);
    }
    // The usual case.
    if incarnation == dispatch.incarnation {
        return Ok(true);
    }
    Ok(store::worker::heir(conn, dispatch.id).await? == Some(incarnation))
}

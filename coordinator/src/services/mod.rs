//! Loops that keep the steps of [`crate::flow`] going: they wait, work once, and count. No loop depends on a
//! message for correctness; every one polls.
//!
//! | module | loop |
//! | --- | --- |
//! | `claims` | serves claims that arrive together |
//! | `requests` | answers hello, heartbeat, decide, blob, check and prune requests |
//! | `reports` | applies and settles reports in batches |
//! | `incoming` | reads a report and the parts of its text |
//! | `ticks` | periodic work: tickets, rescue, runs' ends, counters, plans, upkeep, retention, memory, embeddings |
//! | `dead_letters` | keeps one copy of each report that cannot be read yet |
//! | `notices` | delivers notices |
//! | `traces` | sends traces, if a collector is configured |
//! | `archive` | moves transcripts of settled dispatches to Postgres |
//! | `heartbeats` | checks that the essential loops move |

mod archive;
mod claims;
mod dead_letters;
mod heartbeats;
mod incoming;
mod notices;
mod reports;
mod requests;
mod ticks;
mod traces;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use sqlx::PgPool;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::flow::Settings;
use crate::store;

pub use crate::services::heartbeats::Pulse;

#[derive(Debug, Clone)]
pub struct Deps {
    pub db: PgPool,
    /// Connections for claims, reports and essential work.
    pub reserved: Reserved,
    pub bus: Bus,
    pub settings: Settings,
    /// Last work of the essential loops.
    pub pulse: Arc<Pulse>,
}

/// Reserved connections, so that claims are answered and reports applied however busy the others are.
#[derive(Debug, Clone)]
pub struct Reserved {
    pub claims: PgPool,
    pub reports: PgPool,
    /// For heartbeats, readiness and the essential loops: neither the API nor other loops can take them.
    pub first: PgPool,
}

/// The division of a coordinator's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// For claims and reports together; 0 when they use the first ones.
    pub reserved: u32,
    /// For heartbeats and essential loops; 0 when all use the same connections.
    pub first: u32,
    /// For the API; 0 when all use the same connections.
    pub api: u32,
    /// For all other loops.
    pub loops: u32,
}

/// One batch takes tasks at a time, while others build their assignments.
const CLAIMS: u32 = 4;
/// One batch of reports is applied at a time, while the next one is read and runs are checked.
const REPORTS: u32 = 3;
/// With fewer connections, claims and reports have none of their own.
const LEAST: u32 = 12;
/// With fewer connections, all parts share them.
const LEAST_DIVIDED: u32 = 4;

impl Shares {
    /// Divides this number of connections.
    pub fn of(connections: u32) -> Self {
        let reserved = match connections {
            LEAST.. => CLAIMS + REPORTS,
            _ => 0,
        };
        let rest = connections - reserved;
        let (first, api) = match connections {
            LEAST_DIVIDED.. => (rest / 4, rest * 3 / 8),
            _ => (0, 0),
        };
        Self {
            reserved,
            first,
            api,
            loops: rest - first - api,
        }
    }
}

impl Reserved {
    /// Uses the same connections for everything.
    pub fn shared(db: &PgPool) -> Self {
        Self {
            claims: db.clone(),
            reports: db.clone(),
            first: db.clone(),
        }
    }

    /// Opens the connections in the background; `first` are open. The schema must be this release's.
    pub fn open(server: &store::Server, first: PgPool) -> Self {
        Self {
            claims: store::connect_lazy(server, CLAIMS),
            reports: store::connect_lazy(server, REPORTS),
            first,
        }
    }

    pub async fn close(&self) {
        tokio::join!(self.claims.close(), self.reports.close(), self.first.close());
    }
}

/// Longest drain; everything is safe to cut off.
const DRAIN: Duration = Duration::from_secs(5);

/// Time for the last messages to leave.
const FLUSH: Duration = Duration::from_secs(2);

/// Pause before a failed loop restarts.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// Describes why a loop failed. Without a connection, describes why there is none.
async fn describe_failure(db: &PgPool, error: &anyhow::Error) -> String {
    if let Some(sqlx::Error::PoolTimedOut) = error.downcast_ref()
        && let Some(refusal) = store::Server::refusal(db).await
    {
        return refusal;
    }
    format!("{error:#}")
}

/// Runs all services until `shutdown`, then lets running work finish, bounded. A failed loop restarts.
pub async fn serve(deps: Deps, shutdown: CancellationToken) {
    let mut loops = JoinSet::new();
    let first = Deps {
        db: deps.reserved.first.clone(),
        ..deps.clone()
    };
    macro_rules! keep {
        ($name:literal, $run:path) => {
            keep!($name, $run, deps)
        };
        ($name:literal, $run:path, $deps:ident) => {{
            let (deps, shutdown) = ($deps.clone(), shutdown.clone());
            loops.spawn(async move {
                while !shutdown.is_cancelled() {
                    let ended = AssertUnwindSafe($run(&deps, &shutdown)).catch_unwind().await;
                    let error = match ended {
                        Ok(Ok(())) => continue,
                        Ok(Err(error)) => describe_failure(&deps.db, &error).await,
                        Err(_) => "it panicked".to_owned(),
                    };
                    tracing::warn!(error, service = $name, "service failed; starting it again");
                    tokio::time::sleep(RESTART_PAUSE).await;
                }
            });
        }};
    }
    keep!("claims", claims::run, first);
    keep!("requests", requests::run);
    keep!("reports", reports::run, first);
    keep!("tickets", ticks::tickets, first);
    keep!("rescue", ticks::rescue, first);
    keep!("runs", ticks::runs, first);
    keep!("recount", ticks::recount);
    keep!("health", ticks::health);
    keep!("plans", ticks::plans);
    keep!("upkeep", ticks::upkeep);
    keep!("retention", ticks::retention);
    keep!("schedules", ticks::schedules);
    keep!("aged", ticks::delete_expired);
    keep!("memory", ticks::memory);
    keep!("bounds", ticks::bounds);
    keep!("embeddings", ticks::embeddings);
    keep!("archive", archive::run);
    keep!("notices", notices::run);
    keep!("traces", traces::run);
    shutdown.cancelled().await;
    let drained = tokio::time::timeout(DRAIN, async { while loops.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!("services did not end in time; cut off");
        loops.abort_all();
    }
    // While the broker is away this would wait for it.
    let _ = tokio::time::timeout(FLUSH, deps.bus.client.flush()).await;
}

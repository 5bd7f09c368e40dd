//! Sends traces of ended attempts and runs to a collector, if one is configured (DESIGN 8). Nobody waits
//! for this. While the collector is away, the next batch is read once, however often it is tried.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ralph_shared::ids::DispatchId;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Deps;
use crate::domain::trace::{self, Span};
use crate::flow::maintenance::transcripts;
use crate::store;
use crate::tracer::{EndedWork, Tracer};

/// Attempts that end within this time are sent together.
const LINGER: Duration = Duration::from_secs(1);
/// Time limit of the collector for one batch.
const WITHIN: Duration = Duration::from_secs(10);
/// Time limit of the collector once the coordinator ends.
const AT_THE_END: Duration = Duration::from_secs(2);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(5);
/// A batch is dropped after this: the collector may object to its content.
const MAX_BATCH_AGE: Duration = Duration::from_secs(10 * 60);
/// Bytes that are read from a transcript's beginning, and from its end.
const HALF_BYTES: usize = 4 * 1024 * 1024;
/// Spans after which a batch is full: some megabytes, where collectors usually accept 20 MiB.
const ENOUGH: usize = 10_000;

/// A batch of spans, held until the collector takes it: reading transcripts again for each try would cost too
/// much.
struct Batch {
    ended: EndedWork,
    spans: Vec<Span>,
}

/// Sends traces until `shutdown`, and then, once, the rest.
pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let Some(tracer) = &deps.settings.tracer else {
        shutdown.cancelled().await;
        return Ok(());
    };
    let mut failing: Option<Instant> = None;
    let mut held: Option<Batch> = None;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = tracer.next() => {}
        }
        let pause = if failing.is_some() { PAUSE } else { LINGER };
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
        let outcome = tokio::select! {
            () = shutdown.cancelled() => break,
            outcome = deliver(deps, tracer, &mut held, WITHIN) => outcome,
        };
        match outcome {
            Ok(spans) => {
                if failing.take().is_some() {
                    tracing::info!("the collector takes traces again");
                }
                tracing::debug!(spans, "traces sent");
            }
            Err(error) => {
                let error = format!("{error:#}");
                let since = failing.get_or_insert_with(|| {
                    tracing::warn!(error, "traces can't be sent; trying again");
                    Instant::now()
                });
                if since.elapsed() > MAX_BATCH_AGE {
                    let ended = match held.take() {
                        Some(batch) => batch.ended,
                        None => tracer.next().await,
                    };
                    let dispatches = ended.dispatches.len();
                    tracing::warn!(error, dispatches, "traces were not taken and are given up");
                    tracer.forget(&ended);
                    failing = Some(Instant::now());
                }
            }
        }
        let dropped = tracer.dropped();
        if dropped > 0 {
            tracing::warn!(dropped, "too many traces wait; the oldest are dropped");
        }
    }
    let last = deliver(deps, tracer, &mut held, AT_THE_END);
    if let Ok(Err(error)) = tokio::time::timeout(AT_THE_END, last).await {
        tracing::debug!(error = format!("{error:#}"), "the last traces are not sent");
    }
    Ok(())
}

/// Sends the held batch, else the oldest ended attempts, which it holds until they are taken. Returns the
/// number of spans.
async fn deliver(
    deps: &Deps,
    tracer: &Tracer,
    held: &mut Option<Batch>,
    within: Duration,
) -> anyhow::Result<usize> {
    let batch = match held.take() {
        Some(batch) => batch,
        None => read(deps, tracer.next().await).await?,
    };
    let batch = held.insert(batch);
    let n = batch.spans.len();
    if n > 0 {
        tracer.send(batch.spans.clone(), within).await?;
    }
    tracer.forget(&batch.ended);
    *held = None;
    Ok(n)
}

/// Builds the spans of ended attempts and runs, up to a full batch.
async fn read(deps: &Deps, mut ended: EndedWork) -> anyhow::Result<Batch> {
    let ids: Vec<Uuid> = ended.dispatches.iter().map(|id| id.0).collect();
    let runs: Vec<Uuid> = ended.runs.iter().map(|id| id.0).collect();
    let mut conn = deps.db.acquire().await?;
    let facts = store::dispatch::trace::dispatches(&mut conn, &ids).await?;
    let runs = store::dispatch::trace::runs(&mut conn, &runs).await?;
    drop(conn);
    let mut facts: HashMap<_, _> = facts.into_iter().map(|facts| (facts.dispatch, facts)).collect();
    let mut spans: Vec<Span> = runs.iter().map(trace::of_run).collect();
    let mut done = 0;
    for id in &ended.dispatches {
        if spans.len() >= ENOUGH {
            break;
        }
        done += 1;
        let Some(facts) = facts.remove(id) else {
            continue;
        };
        let transcript = match facts.kind.has_agent() {
            true => transcript(deps, facts.dispatch).await,
            false => Vec::new(),
        };
        spans.extend(trace::of_dispatch(&facts, &transcript));
    }
    ended.dispatches.truncate(done);
    Ok(Batch { ended, spans })
}

/// A session's transcript, as far as it can be read now; without it a trace lacks the agent's actions.
async fn transcript(deps: &Deps, dispatch: DispatchId) -> Vec<ralph_shared::wire::TranscriptEntry> {
    transcripts::entries(&deps.bus, &deps.db, dispatch, HALF_BYTES)
        .await
        .unwrap_or_else(|error| {
            tracing::debug!(%dispatch, error = format!("{error:#}"), "a trace lacks its session");
            Vec::new()
        })
}

//! Traces of what ended are told to a collector, where one is configured (DESIGN 8). Nobody waits for this, and a collector that is
//! away costs nothing but patience: what is told next is read once, however often it is tried.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ralph_shared::ids::DispatchId;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Deps;
use crate::domain::trace::{self, Span};
use crate::flow::maintenance::transcripts;
use crate::store;
use crate::tracer::{Ended, Tracer};

/// What ends within this time is told together.
const LINGER: Duration = Duration::from_secs(1);
/// How long the collector may take for one batch.
const WITHIN: Duration = Duration::from_secs(10);
/// How long it may take once the coordinator ends.
const AT_THE_END: Duration = Duration::from_secs(2);
/// From try to try.
const PAUSE: Duration = Duration::from_secs(5);
/// A batch that isn't taken for so long is given up: it might be what the collector minds.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// What is read of a transcript's beginning, and of its end. Bytes.
const HALF_BYTES: usize = 4 * 1024 * 1024;
/// Spans after which no further attempt is told with them: some megabytes, where collectors usually take 20 MiB at once.
const ENOUGH: usize = 10_000;

/// What is told at once. It is kept until it is taken: reading transcripts again with each try would cost more than the collector is
/// worth.
struct Batch {
    ended: Ended,
    spans: Vec<Span>,
}

/// Tells traces until `shutdown`, and then, once, of what is left.
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
            outcome = tell(deps, tracer, &mut held, WITHIN) => outcome,
        };
        match outcome {
            Ok(spans) => {
                if failing.take().is_some() {
                    tracing::info!("the collector takes traces again");
                }
                tracing::debug!(spans, "traces told");
            }
            Err(error) => {
                let error = format!("{error:#}");
                let since = failing.get_or_insert_with(|| {
                    tracing::warn!(error, "traces can't be told; trying again");
                    Instant::now()
                });
                if since.elapsed() > PATIENCE {
                    let ended = match held.take() {
                        Some(batch) => batch.ended,
                        None => tracer.next().await,
                    };
                    let dispatches = ended.dispatches.len();
                    tracing::warn!(error, dispatches, "traces were not taken and are given up");
                    tracer.told(&ended);
                    failing = Some(Instant::now());
                }
            }
        }
        let dropped = tracer.dropped();
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "too many traces wait to be told; the oldest are given up"
            );
        }
    }
    let last = tell(deps, tracer, &mut held, AT_THE_END);
    if let Ok(Err(error)) = tokio::time::timeout(AT_THE_END, last).await {
        tracing::debug!(error = format!("{error:#}"), "the last traces are not told");
    }
    Ok(())
}

/// Sends what is held, else the oldest of what ended, which is held until it is taken. How many spans there were.
async fn tell(
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
    tracer.told(&batch.ended);
    *held = None;
    Ok(n)
}

/// Builds the spans of what ended, or of as much of it as is enough.
async fn read(deps: &Deps, mut ended: Ended) -> anyhow::Result<Batch> {
    let ids: Vec<Uuid> = ended.dispatches.iter().map(|id| id.0).collect();
    let runs: Vec<Uuid> = ended.runs.iter().map(|id| id.0).collect();
    let mut conn = deps.db.acquire().await?;
    let facts = store::dispatch::trace::dispatches(&mut conn, &ids).await?;
    let runs = store::dispatch::trace::runs(&mut conn, &runs).await?;
    drop(conn);
    let mut facts: HashMap<_, _> = facts.into_iter().map(|facts| (facts.dispatch, facts)).collect();
    let mut spans: Vec<Span> = runs.iter().map(trace::of_run).collect();
    let mut told = 0;
    for id in &ended.dispatches {
        if spans.len() >= ENOUGH {
            break;
        }
        told += 1;
        let Some(facts) = facts.remove(id) else {
            continue;
        };
        let transcript = match facts.kind.has_agent() {
            true => transcript(deps, facts.dispatch).await,
            false => Vec::new(),
        };
        spans.extend(trace::of_dispatch(&facts, &transcript));
    }
    ended.dispatches.truncate(told);
    Ok(Batch { ended, spans })
}

/// What a session showed, as far as it can be read now: without it a trace lacks what the agent did.
async fn transcript(deps: &Deps, dispatch: DispatchId) -> Vec<ralph_shared::wire::TranscriptEntry> {
    transcripts::entries(&deps.bus, &deps.db, dispatch, HALF_BYTES)
        .await
        .unwrap_or_else(|error| {
            tracing::debug!(%dispatch, error = format!("{error:#}"), "a trace lacks its session");
            Vec::new()
        })
}

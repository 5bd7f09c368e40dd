//! Claims that came together are served together; when idle there is no linger (DESIGN 2).

use std::sync::Arc;

use async_nats::Message;
use futures::StreamExt as _;
use ralph_shared::subjects::COORDINATORS;
use ralph_shared::wire::{ClaimAnswer, ClaimRequest, common_version};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::requests::{answer, note_panic, read};
use crate::{faults, flow};

/// Claims of one transaction.
const MAX_BATCH: usize = 256;
/// Claims that may wait; further ones stay with the broker's client.
const QUEUE: usize = 4096;
/// Batches under way at once: one takes tasks while others build their context.
const IN_FLIGHT: usize = 3;
/// Batches that take tasks at once. The database lets one do so after the other; claims that come meanwhile had better form one
/// large batch than wait there in several small ones.
const TAKING: usize = 1;

/// Serves claims until `shutdown`.
pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let client = &deps.bus.client;
    let mut subscription = client
        .queue_subscribe(deps.bus.subjects.claim(), COORDINATORS.to_owned())
        .await?;
    let (sender, mut queue) = mpsc::channel::<(ClaimRequest, Message)>(QUEUE);
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let taking = Arc::new(Semaphore::new(TAKING));
    let mut serving = JoinSet::new();
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut receiving = true;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if receiving => {
                subscription.unsubscribe().await?;
                receiving = false;
            }
            message = subscription.next(), if receiving && sender.capacity() > 0 => {
                let Some(message) = message else { anyhow::bail!("the subscription to claims ended") };
                if let Some(claim) = read::<ClaimRequest>(&message) {
                    let _ = sender.try_send((claim, message));
                }
            }
            permits = both(&in_flight, &taking), if !queue.is_empty() => {
                let (permit, turn) = permits?;
                queue.recv_many(&mut batch, MAX_BATCH).await;
                let deps = deps.clone();
                let taken = std::mem::take(&mut batch);
                serving.spawn(async move {
                    serve(&deps, taken, turn).await;
                    drop(permit);
                });
            }
            Some(served) = serving.join_next() => note_panic(served),
            else => {}
        }
        if !receiving && queue.is_empty() {
            while let Some(served) = serving.join_next().await {
                note_panic(served);
            }
            return Ok(());
        }
    }
}

/// A place among the batches under way, and the turn to take tasks.
async fn both(
    in_flight: &Arc<Semaphore>,
    taking: &Arc<Semaphore>,
) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), AcquireError> {
    let permit = Arc::clone(in_flight).acquire_owned().await?;
    Ok((permit, Arc::clone(taking).acquire_owned().await?))
}

async fn serve(deps: &Deps, batch: Vec<(ClaimRequest, Message)>, turn: OwnedSemaphorePermit) {
    let (claims, messages): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let readable = |claim: &ClaimRequest| common_version(&claim.reads).is_some();
    let (answers, sent) = match flow::claim::answer(&deps.ways.claims, &deps.settings, &claims, turn).await {
        Ok(answered) => {
            deps.bus.emit(answered.signals).await;
            (answered.answers, Some(answered.sent))
        }
        Err(error) => {
            tracing::warn!(%error, claims = claims.len(), "claims could not be served; the workers ask again");
            let reason = "the coordinator can't reach its database".to_owned();
            let not_now = ClaimAnswer::NotNow {
                reason,
                retry_after_ms: 1_000,
            };
            (vec![not_now; claims.len()], None)
        }
    };
    faults::point("claim.before_answer");
    for ((message, claim), given) in messages.iter().zip(&claims).zip(answers) {
        if readable(claim) {
            answer(&deps.bus, message, &given).await;
        }
    }
    if let Some(sent) = sent
        && let Err(error) = sent.keep(&deps.ways.claims.build).await
    {
        tracing::warn!(%error, claims = claims.len(), "prompts could not be kept; the sessions go on without");
    }
}

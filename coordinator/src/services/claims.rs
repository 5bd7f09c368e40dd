//! Serves claims that arrive together as a batch; when idle there is no linger.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use ralph_shared::subjects::COORDINATORS;
use ralph_shared::wire::{ClaimAnswer, ClaimRequest, common_version};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::requests::{note_panic, read, reply};
use crate::bus::Bus;
use crate::waiting::PendingClaim;
use crate::{faults, flow};

/// Claims of one transaction.
const MAX_BATCH: usize = 256;
/// Most queued claims; further ones stay with the broker's client.
const QUEUE: usize = 4096;
/// Batches in flight: one takes tasks while others build their context.
const IN_FLIGHT: usize = 3;
/// Batches that take tasks at once. The database allows one at a time anyway; later claims form one large
/// batch instead of several small ones.
const TAKING: usize = 1;

/// How often waiting claims are checked for their time limit.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let client = &deps.bus.client;
    let waiting = &deps.bus.waiting;
    let mut subscription = client
        .queue_subscribe(deps.bus.subjects.claim(), COORDINATORS.to_owned())
        .await?;
    // Tickets of other coordinators concern these claims as well.
    let mut tickets = client.subscribe(deps.bus.subjects.tickets_all()).await?;
    let (sender, mut queue) = mpsc::channel::<PendingClaim>(QUEUE);
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let taking = Arc::new(Semaphore::new(TAKING));
    let mut limit_checks = tokio::time::interval(CHECK_INTERVAL);
    limit_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut serving = JoinSet::new();
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut receiving = true;
    waiting.open();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if receiving => {
                subscription.unsubscribe().await?;
                receiving = false;
                answer_nothing(&deps.bus, waiting.close()).await;
            }
            message = subscription.next(), if receiving && sender.capacity() > 0 => {
                let Some(message) = message else { anyhow::bail!("the subscription to claims ended") };
                if let Some(claim) = read::<ClaimRequest>(&message) {
                    let _ = sender.try_send(PendingClaim::new(claim, message));
                }
            }
            () = waiting.due(), if receiving && sender.capacity() > 0 => {
                for asked in waiting.take_due(sender.capacity()) {
                    let _ = sender.try_send(asked);
                }
            }
            permits = acquire_permits(&in_flight, &taking), if !queue.is_empty() => {
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
            ticket = tickets.next(), if receiving => {
                let Some(ticket) = ticket else { anyhow::bail!("the subscription to tickets ended") };
                if let Some((_, pool)) = ticket.subject.rsplit_once('.') {
                    waiting.tell(pool, 1);
                }
            }
            _ = limit_checks.tick(), if !waiting.is_empty() => answer_nothing(&deps.bus, waiting.take_over()).await,
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

/// Answers claims without work.
async fn answer_nothing(bus: &Bus, asked: Vec<PendingClaim>) {
    for one in asked {
        reply(bus, &one.message, &ClaimAnswer::Nothing).await;
    }
}

/// A slot among the batches in flight, and the turn to take tasks.
async fn acquire_permits(
    in_flight: &Arc<Semaphore>,
    taking: &Arc<Semaphore>,
) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), AcquireError> {
    let permit = Arc::clone(in_flight).acquire_owned().await?;
    Ok((permit, Arc::clone(taking).acquire_owned().await?))
}

async fn serve(deps: &Deps, batch: Vec<PendingClaim>, turn: OwnedSemaphorePermit) {
    let before = deps.bus.waiting.missed_tickets();
    let claims: Vec<_> = batch.iter().map(|asked| asked.claim.clone()).collect();
    let (answers, unmet, sent) = match flow::claim::serve(
        &deps.reserved.claims,
        &deps.settings,
        &claims,
        turn,
    )
    .await
    {
        Ok(answered) => {
            deps.bus.emit(answered.signals).await;
            (answered.answers, answered.unmet, Some(answered.sent))
        }
        Err(error) => {
            tracing::warn!(%error, claims = claims.len(), "claims could not be served; the workers ask again");
            let reason = "the coordinator can't reach its database".to_owned();
            let not_now = ClaimAnswer::NotNow {
                reason,
                retry_after_ms: 1_000,
            };
            (vec![not_now; claims.len()], HashMap::new(), None)
        }
    };
    faults::point("claim.before_answer");
    let mut idle = Vec::new();
    for (index, (asked, given)) in batch.into_iter().zip(answers).enumerate() {
        if common_version(&asked.claim.reads).is_none() {
            continue;
        }
        match given {
            ClaimAnswer::Nothing => idle.push((asked, unmet.get(&index).copied().unwrap_or_default())),
            given => reply(&deps.bus, &asked.message, &given).await,
        }
    }
    answer_nothing(&deps.bus, deps.bus.waiting.keep(idle, &before)).await;
    // The answers go out first.
    tokio::task::yield_now().await;
    if let Some(sent) = sent
        && let Err(error) = sent.keep(&deps.reserved.claims).await
    {
        tracing::warn!(%error, claims = claims.len(), "prompts could not be stored; the sessions continue without that");
    }
}

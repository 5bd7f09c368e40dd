//! A slot: claims, works, reports, claims again; without work it waits for a ticket, and asks now and then all the same
//! (DESIGN 1.5).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::PullConsumer;
use futures::StreamExt as _;
use futures::future::select_all;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{ClaimAnswer, ClaimRequest, READS};

use crate::dispatch;
use crate::faults;
use crate::instance::session_permits::SessionPermit;
use crate::instance::{Instance, Trial};
use crate::reminder::Reminder;

/// How long a slot waits for a ticket before it asks without one.
const WAIT: Duration = Duration::from_secs(25);
/// How often a slot polls when its worker has an unavailable agent.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// How often a slot that waits for a ticket checks whether the broker was restarted.
const BROKER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Works until the drain.
pub async fn run(instance: Arc<Instance>) {
    let mut tickets: HashMap<String, PullConsumer> = HashMap::new();
    // The claim that may have been served already: what can't be told is asked again under the same id.
    let mut asked: Option<DispatchId> = None;
    let mut unreadable = Reminder::default();
    // Whether this slot may try what failed before.
    let mut trial: Option<Trial> = None;
    let mut place: Option<SessionPermit> = None;
    while !instance.draining.is_cancelled() {
        if place.is_none() {
            place = instance
                .draining
                .run_until_cancelled(SessionPermit::take(&instance.places))
                .await;
            continue;
        }
        if !instance.in_contact() {
            rest(&instance, PAUSE).await;
            continue;
        }
        faults::point("claim.before");
        if trial.is_none() && instance.has_trials(true) {
            trial = instance.trial();
        }
        let claim = ClaimRequest {
            reads: READS.to_vec(),
            worker: instance.config.name.clone(),
            incarnation: instance.incarnation,
            claim: *asked.get_or_insert_with(DispatchId::new),
            pools: instance.config.pools.clone(),
            agents: instance.open_agents(trial.is_some()),
            // What comes while one waits may be for what this worker can't start: others shall have it.
            wait_ms: match instance.next_retry_in() {
                None if trial.is_some() || !instance.has_trials(false) => instance.broker.wait_ms(),
                _ => 0,
            },
            checks: true,
        };
        match instance.broker.claim(&claim).await {
            Ok(ClaimAnswer::Assigned { assignment }) => {
                instance.slot_is_free(false);
                let _trial = trial.take().filter(|_| instance.is_on_trial(&assignment));
                if let Some(place) = place.take() {
                    dispatch::run(&instance, *assignment, Arc::new(place)).await;
                }
                instance.slot_is_free(true);
                asked = None;
            }
            Ok(ClaimAnswer::Nothing) => {
                asked = None;
                // What failed before goes after what didn't.
                if trial.is_none() {
                    trial = instance.trial();
                    if trial.is_some() {
                        continue;
                    }
                }
                let others_try = trial.take().is_none() && instance.has_trials(false);
                match instance.next_retry_in() {
                    // A ticket may be for what this worker can't start: others shall have it.
                    Some(left) => rest(&instance, left.min(POLL_INTERVAL)).await,
                    None if others_try => rest(&instance, POLL_INTERVAL).await,
                    None => ticket(&instance, &mut tickets).await,
                }
            }
            Ok(ClaimAnswer::NotNow {
                reason,
                retry_after_ms,
            }) => {
                tracing::debug!(reason, "not now");
                rest(&instance, Duration::from_millis(retry_after_ms.clamp(50, 60_000))).await;
            }
            Ok(ClaimAnswer::SayHello) => {
                instance.heartbeat_now.notify_one();
                rest(&instance, PAUSE).await;
            }
            Ok(ClaimAnswer::Unknown) => {
                tracing::warn!("the claim's answer is of a later release");
                rest(&instance, WAIT).await;
            }
            // Asked again it would be the same: what was assigned goes to whoever asks once its lease has ended.
            Err(error) if is_unreadable(&error) => {
                if unreadable.is_due("assignment", Instant::now()) {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "an assignment can't be read; is this worker of an earlier release than the coordinator?"
                    );
                }
                asked = None;
                rest(&instance, WAIT).await;
            }
            // The same claim is asked again: it may have been served.
            Err(error) => {
                tracing::debug!(error = format!("{error:#}"), "claim without an answer");
                rest(&instance, PAUSE).await;
            }
        }
    }
}

/// Whether there was an answer, of another release say.
fn is_unreadable(error: &anyhow::Error) -> bool {
    error.is::<serde_json::Error>()
}

async fn rest(instance: &Instance, pause: Duration) {
    tokio::select! {
        () = instance.draining.cancelled() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

/// Waits for a ticket of any pool, at most [`WAIT`]. It is acked at once: it says only that there is work, and the claim
/// that follows finds it, or somebody else did.
async fn ticket(instance: &Instance, consumers: &mut HashMap<String, PullConsumer>) {
    for pool in &instance.config.pools {
        if !consumers.contains_key(pool) {
            match instance.broker.tickets(pool).await {
                Ok(consumer) => {
                    consumers.insert(pool.clone(), consumer);
                }
                Err(error) => {
                    tracing::debug!(error = format!("{error:#}"), "no tickets yet");
                    rest(instance, PAUSE).await;
                    return;
                }
            }
        }
    }
    let waits = consumers.values().map(|consumer| Box::pin(one(consumer)));
    let got = tokio::select! {
        () = instance.draining.cancelled() => return,
        () = reconnected(instance) => return,
        (got, _, _) = select_all(waits) => got,
    };
    if let Err(error) = got {
        tracing::debug!(%error, "waiting for tickets failed; asking anew for the consumers");
        consumers.clear();
        rest(instance, PAUSE).await;
    }
}

/// Waits until the broker is another one, which knows nothing of a request to the one before.
async fn reconnected(instance: &Instance) {
    let before = instance.broker.connects();
    while instance.broker.connects() == before {
        tokio::time::sleep(BROKER_CHECK_INTERVAL).await;
    }
}

/// One ticket, or none within [`WAIT`]. No idle heartbeats are asked for: async-nats 0.51 takes one without asking to be woken
/// for what comes after it, so that a ticket would wait for the end of the request. A request that the broker lost ends
/// by itself.
async fn one(consumer: &PullConsumer) -> Result<(), async_nats::Error> {
    let mut batch = consumer.fetch().max_messages(1).expires(WAIT).messages().await?;
    while let Some(message) = batch.next().await {
        let message = message?;
        message.ack().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_told_from_none() {
        let read = |answer: &[u8]| {
            serde_json::from_slice::<ClaimAnswer>(answer).context("the answer on ralph.claim can't be read")
        };
        let later = br#"{"answer": "assigned", "assignment": {"work": {"kind": "dream"}}}"#;
        assert!(is_unreadable(&read(later).unwrap_err()));
        assert_eq!(read(br#"{"answer": "dreamt"}"#).unwrap(), ClaimAnswer::Unknown);
        assert!(!is_unreadable(&anyhow::anyhow!(
            "no coordinator answered on ralph.claim"
        )));
    }
}

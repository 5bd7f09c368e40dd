//! A slot claims, works, reports and claims again. Without work it waits for a ticket, and polls now and then
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

/// How long a slot waits for a ticket before it claims without one.
const WAIT: Duration = Duration::from_secs(25);
/// How often a slot polls when its worker has an unavailable agent.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

/// How often a slot that waits for a ticket checks whether the broker was restarted.
const BROKER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Slot {
    tickets: HashMap<String, PullConsumer>,
    /// A claim without an answer. It may have been served, so it is repeated under the same id.
    asked: Option<DispatchId>,
    unreadable: Reminder,
    /// Permission to try an agent whose last start failed.
    trial: Option<Trial>,
    place: Option<SessionPermit>,
}

/// Works until the drain.
pub async fn run(instance: Arc<Instance>) {
    let mut slot = Slot::default();
    while !instance.draining.is_cancelled() {
        if slot.place.is_none() {
            slot.place = instance
                .draining
                .run_until_cancelled(SessionPermit::take(&instance.places))
                .await;
            continue;
        }
        if !instance.in_contact() {
            instance.rest(PAUSE).await;
            continue;
        }
        faults::point("claim.before");
        let claim = slot.request(&instance);
        match instance.broker.claim(&claim).await {
            Ok(answer) => slot.answered(&instance, answer).await,
            Err(error) => slot.unanswered(&instance, &error).await,
        }
    }
}

impl Slot {
    fn request(&mut self, instance: &Instance) -> ClaimRequest {
        if self.trial.is_none() && instance.has_trials(true) {
            self.trial = instance.trial();
        }
        ClaimRequest {
            reads: READS.to_vec(),
            worker: instance.config.name.clone(),
            incarnation: instance.incarnation,
            claim: *self.asked.get_or_insert_with(DispatchId::new),
            pools: instance.config.pools.clone(),
            agents: instance.open_agents(self.trial.is_some()),
            // Work that arrives during the wait may be for an agent that this worker can't start. Other
            // workers shall have it.
            wait_ms: match instance.next_retry_in() {
                None if self.trial.is_some() || !instance.has_trials(false) => instance.broker.wait_ms(),
                _ => 0,
            },
            checks: true,
        }
    }

    async fn answered(&mut self, instance: &Arc<Instance>, answer: ClaimAnswer) {
        match answer {
            ClaimAnswer::Assigned { assignment } => {
                instance.set_slot_free(false);
                let _trial = self.trial.take().filter(|_| instance.is_on_trial(&assignment));
                if let Some(place) = self.place.take() {
                    dispatch::run(instance, *assignment, Arc::new(place)).await;
                }
                instance.set_slot_free(true);
                self.asked = None;
            }
            ClaimAnswer::Nothing => {
                self.asked = None;
                self.wait_for_work(instance).await;
            }
            ClaimAnswer::NotNow {
                reason,
                retry_after_ms,
            } => {
                tracing::debug!(reason, "not now");
                instance
                    .rest(Duration::from_millis(retry_after_ms.clamp(50, 60_000)))
                    .await;
            }
            ClaimAnswer::SayHello => {
                instance.heartbeat_now.notify_one();
                instance.rest(PAUSE).await;
            }
            ClaimAnswer::Unknown => {
                tracing::warn!("the claim's answer is of a later release");
                instance.rest(WAIT).await;
            }
        }
    }

    async fn wait_for_work(&mut self, instance: &Instance) {
        // Agents whose last start failed go after the others.
        if self.trial.is_none() {
            self.trial = instance.trial();
            if self.trial.is_some() {
                return;
            }
        }
        let others_try = self.trial.take().is_none() && instance.has_trials(false);
        match instance.next_retry_in() {
            // A ticket may be for an agent that this worker can't start. Other workers shall have it.
            Some(left) => instance.rest(left.min(POLL_INTERVAL)).await,
            None if others_try => instance.rest(POLL_INTERVAL).await,
            None => ticket(instance, &mut self.tickets).await,
        }
    }

    async fn unanswered(&mut self, instance: &Instance, error: &anyhow::Error) {
        // The answer would be the same again. Another worker gets the assignment once its lease has ended.
        if is_unreadable(error) {
            if self.unreadable.is_due("assignment", Instant::now()) {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "an assignment can't be read; is this worker of an earlier release than the coordinator?"
                );
            }
            self.asked = None;
            instance.rest(WAIT).await;
        } else {
            // The claim may have been served, so it is repeated.
            tracing::debug!(error = format!("{error:#}"), "claim without an answer");
            instance.rest(PAUSE).await;
        }
    }
}

/// Whether an answer came but can't be read, for example because it is of another release.
fn is_unreadable(error: &anyhow::Error) -> bool {
    error.is::<serde_json::Error>()
}

/// Waits for a ticket of any pool, at most [`WAIT`]. The ticket is acked at once: it only says that there is
/// work, which the next claim finds unless another worker did.
async fn ticket(instance: &Instance, consumers: &mut HashMap<String, PullConsumer>) {
    for pool in &instance.config.pools {
        if !consumers.contains_key(pool) {
            match instance.broker.tickets(pool).await {
                Ok(consumer) => {
                    consumers.insert(pool.clone(), consumer);
                }
                Err(error) => {
                    tracing::debug!(error = format!("{error:#}"), "no tickets yet");
                    instance.rest(PAUSE).await;
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
        instance.rest(PAUSE).await;
    }
}

/// Waits until the broker was replaced: the new one doesn't know the pending request.
async fn reconnected(instance: &Instance) {
    let before = instance.broker.connects();
    while instance.broker.connects() == before {
        tokio::time::sleep(BROKER_CHECK_INTERVAL).await;
    }
}

/// Waits for one ticket, at most [`WAIT`]. Requests no idle heartbeats: async-nats 0.51 takes one without
/// asking to be woken for the next message, so that a ticket would wait for the end of the request. A request
/// that the broker lost ends by itself.
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
    fn an_unreadable_answer_is_distinguished_from_no_answer() {
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

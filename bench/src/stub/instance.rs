//! A stub's instance: its connection, its hello, its heartbeats.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use async_nats::jetstream;
use bytes::Bytes;
use futures::StreamExt as _;
use ralph_shared::broker;
use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::subjects::Subjects;
use ralph_shared::wire::{
    ClaimAnswer, ClaimRequest, Control, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer, READS, Report,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::StubArgs;

/// How long a request waits for its answer.
const REQUEST: Duration = Duration::from_secs(10);
/// How long a claim waits with the coordinator, as a worker's does.
const WAIT_MS: u64 = 1_000;
/// Reports without a settlement after which the heartbeat comes at once: its message has a bound, which 25,000 ids reach.
const MAX_UNSETTLED: usize = 16 * 1024;

/// What all slots share.
#[derive(Debug)]
pub struct Instance {
    client: async_nats::Client,
    /// JetStream on the same connection.
    pub jetstream: jetstream::Context,
    /// The names in use.
    pub subjects: Subjects,
    /// The worker's name.
    pub name: String,
    /// This instance.
    pub incarnation: Incarnation,
    slots: u32,
    heartbeat: Duration,
    held: Mutex<HeldDispatches>,
    beat_now: Notify,
}

/// The dispatches that this instance leases.
#[derive(Debug, Default)]
struct HeldDispatches {
    running: BTreeSet<DispatchId>,
    spooled: BTreeSet<DispatchId>,
}

impl Instance {
    /// Connects and says hello until somebody answers.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn begin(args: &StubArgs, subjects: Subjects) -> anyhow::Result<Self> {
        let client = broker::connect_worker(&args.nats, &args.name).await?;
        let mut instance = Self {
            jetstream: jetstream::new(client.clone()),
            client,
            subjects,
            name: args.name.clone(),
            incarnation: Incarnation::new(),
            slots: args.slots,
            heartbeat: Duration::from_secs(5),
            held: Mutex::default(),
            beat_now: Notify::new(),
        };
        let hello = Hello {
            reads: READS.to_vec(),
            worker: instance.name.clone(),
            incarnation: instance.incarnation,
            data_id: instance.name.clone(),
            pools: pools(),
            slots: args.slots,
            agents: vec!["default".to_owned()],
            accounts: Vec::new(),
            rules: Vec::new(),
            spooled: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: String::new(),
            pid: std::process::id(),
        };
        loop {
            match instance.request(instance.subjects.hello(), &hello).await {
                Ok(HelloAnswer::Welcome { heartbeat_ms, .. }) => {
                    instance.heartbeat = Duration::from_millis(heartbeat_ms);
                    return Ok(instance);
                }
                Ok(answer) => bail!("the stub is not welcome: {answer:?}"),
                // No coordinator yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn request<A: DeserializeOwned>(
        &self,
        subject: String,
        body: &impl Serialize,
    ) -> anyhow::Result<A> {
        let body = Bytes::from(serde_json::to_vec(body)?);
        let message = tokio::time::timeout(REQUEST, self.client.request(subject, body))
            .await
            .context("no answer in time")??;
        Ok(serde_json::from_slice(&message.payload)?)
    }

    /// Asks for work.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn claim(&self, claim: DispatchId) -> anyhow::Result<ClaimAnswer> {
        let request = ClaimRequest {
            reads: READS.to_vec(),
            worker: self.name.clone(),
            incarnation: self.incarnation,
            claim,
            pools: pools(),
            agents: vec!["default".to_owned()],
            wait_ms: WAIT_MS,
            checks: true,
        };
        self.request(self.subjects.claim(), &request).await
    }

    /// Gives a report to the broker; its dispatch stays leased until it is settled.
    ///
    /// # Errors
    /// When the broker doesn't take it.
    pub async fn report(&self, report: &Report) -> anyhow::Result<()> {
        let body = Bytes::from(serde_json::to_vec(report)?);
        // As a worker's report is on its disk before it is sent: it may be settled before the broker's word of it comes.
        let unsettled = {
            let mut held = self.held();
            held.running.remove(&report.dispatch);
            held.spooled.insert(report.dispatch);
            held.spooled.len()
        };
        self.jetstream
            .publish(self.subjects.reports(), body)
            .await?
            .await?;
        if unsettled >= MAX_UNSETTLED {
            self.beat_now.notify_one();
        }
        Ok(())
    }

    /// Notes a dispatch that is at work.
    pub fn started(&self, dispatch: DispatchId) {
        self.held().running.insert(dispatch);
    }

    fn held(&self) -> MutexGuard<'_, HeldDispatches> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pools() -> Vec<String> {
    vec!["default".to_owned()]
}

/// Forgets what is settled, as soon as it is told.
pub async fn orders(instance: std::sync::Arc<Instance>) -> anyhow::Result<()> {
    let mut orders = instance
        .client
        .subscribe(instance.subjects.control(&instance.name))
        .await?;
    while let Some(message) = orders.next().await {
        if let Ok(Control::Settled { settled }) = serde_json::from_slice(&message.payload) {
            let mut held = instance.held();
            for one in settled {
                held.spooled.remove(&one.dispatch);
            }
        }
    }
    bail!("the orders ended")
}

/// Renews leases and forgets what is settled.
pub async fn send_heartbeats(instance: std::sync::Arc<Instance>) -> anyhow::Result<()> {
    loop {
        let beat = {
            let held = instance.held();
            let running = u32::try_from(held.running.len()).unwrap_or(u32::MAX);
            Heartbeat {
                reads: READS.to_vec(),
                worker: instance.name.clone(),
                incarnation: instance.incarnation,
                running: held.running.iter().copied().collect(),
                spooled: held.spooled.iter().copied().collect(),
                free_slots: instance.slots.saturating_sub(running),
                draining: false,
                doors: Vec::new(),
                answered: Vec::new(),
                used: Vec::new(),
                transcripts: Vec::new(),
                heard: Vec::new(),
                warm_bytes: None,
            }
        };
        match instance.request(instance.subjects.heartbeat(), &beat).await {
            Ok(HeartbeatAnswer::Renewed { settled, .. }) => {
                let mut held = instance.held();
                for one in settled {
                    held.spooled.remove(&one.dispatch);
                }
            }
            Ok(answer) => bail!("the stub's heartbeat was not taken: {answer:?}"),
            Err(error) => tracing::warn!(%error, "no answer to a heartbeat"),
        }
        // Reports are settled some milliseconds after they were published: asking in a circle would only cost.
        let least = instance.heartbeat / 20;
        tokio::time::sleep(least).await;
        tokio::select! {
            () = instance.beat_now.notified() => {}
            () = tokio::time::sleep(instance.heartbeat.saturating_sub(least)) => {}
        }
    }
}

//! A stub's instance: its connection, hello and heartbeats.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use async_nats::jetstream;
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
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

/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(10);
/// How long the coordinator may hold a claim, as for a worker.
const WAIT_MS: u64 = 1_000;
/// Unsettled reports that trigger an immediate heartbeat: 25,000 ids would exceed the size limit of its
/// message.
const MAX_UNSETTLED: usize = 16 * 1024;

/// State shared by all slots.
#[derive(Debug)]
pub struct Instance {
    client: async_nats::Client,
    /// JetStream on the same connection.
    pub jetstream: jetstream::Context,
    pub subjects: Subjects,
    pub name: String,
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
    /// Connects, and sends hello until a coordinator responds.
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

    /// Publishes a report; its dispatch stays leased until it is settled.
    pub async fn report(&self, report: &Report) -> anyhow::Result<()> {
        let body = Bytes::from(serde_json::to_vec(report)?);
        // A worker also spools a report before it sends it: the settlement may arrive before the broker's
        // acknowledgement.
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

    /// Records a running dispatch.
    pub fn started(&self, dispatch: DispatchId) {
        self.held().running.insert(dispatch);
    }

    fn held(&self) -> MutexGuard<'_, HeldDispatches> {
        self.held.lock()
    }
}

fn pools() -> Vec<String> {
    vec!["default".to_owned()]
}

/// Removes settled dispatches on the coordinator's messages.
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

/// Renews leases and removes settled dispatches.
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
        // Reports are settled some milliseconds after publication: a tight loop would only waste time.
        let least = instance.heartbeat / 20;
        tokio::time::sleep(least).await;
        tokio::select! {
            () = instance.beat_now.notified() => {}
            () = tokio::time::sleep(instance.heartbeat.saturating_sub(least)) => {}
        }
    }
}

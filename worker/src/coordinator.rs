//! The worker's side of all messages (DESIGN 3). Requests have time limits; the caller repeats a request
//! without an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use async_nats::connection::State;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{self};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ralph_shared::at_length::by_length;
use ralph_shared::broker::{self, Refusal};
use ralph_shared::subjects::Subjects;
use ralph_shared::wire::{
    BlobAnswer, BlobRequest, CallAnswer, CheckAnswer, CheckRequest, ClaimAnswer, ClaimRequest, DecideAnswer,
    DecideRequest, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer, PART_BYTES, PruneAnswer, PruneRequest,
    SessionCall, Text, TextError, TranscriptBatch, sha256_hex,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Time limit of a request until the coordinator has sent the length of leases.
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for work of a claim, before its slot waits for a ticket.
const LONGEST_WAIT_MS: u64 = 1_000;
/// Longer texts are sent in parts. Bytes.
const INLINE_BYTES: usize = 200 * 1024;

/// Size of a text as JSON, which writes a control character as six bytes.
fn json_bytes(text: &str) -> usize {
    let written = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(written).sum()
}

/// A connection to the broker, with the subjects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BrokerConnection {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    subjects: Subjects,
    timeout_ms: Arc<AtomicU64>,
    /// The broker's address without a login.
    address: Arc<str>,
}

impl BrokerConnection {
    /// Connects, and keeps trying forever while the broker is unreachable.
    ///
    /// # Errors
    /// Fails if the address is invalid.
    pub async fn connect(url: &str, subjects: Subjects, name: &str) -> anyhow::Result<Self> {
        let client = broker::connect_worker(url, name).await?;
        let jetstream = jetstream::new(client.clone());
        Ok(Self {
            client,
            jetstream,
            subjects,
            timeout_ms: Arc::new(AtomicU64::new(FIRST_TIMEOUT.as_millis() as u64)),
            address: broker::addresses(url).into(),
        })
    }

    /// Derives the time limit of requests from the lease. A coordinator that dies during a request must not
    /// cost the lease or much time, so three tries fit into one lease.
    pub fn lease_is(&self, lease: Duration) {
        let ms = u64::try_from(lease.as_millis() / 4).unwrap_or(u64::MAX);
        self.timeout_ms.store(ms.clamp(250, 10_000), Ordering::Relaxed);
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed))
    }

    /// How long a claim may wait for work: its answer must still arrive within the time limit.
    pub fn wait_ms(&self) -> u64 {
        LONGEST_WAIT_MS.min(self.timeout_ms.load(Ordering::Relaxed) / 4)
    }

    async fn request<A: DeserializeOwned>(
        &self,
        subject: String,
        request: &impl Serialize,
    ) -> anyhow::Result<A> {
        let body = Bytes::from(serde_json::to_vec(request)?);
        let asked = self.client.request(subject.clone(), body);
        let Ok(answer) = tokio::time::timeout(self.timeout(), asked).await else {
            bail!("{}", self.silence(&subject));
        };
        let message = answer.with_context(|| format!("failed to ask on {subject}"))?;
        serde_json::from_slice(&message.payload)
            .with_context(|| format!("the answer on {subject} can't be read"))
    }

    fn silence(&self, subject: &str) -> String {
        if self.is_connected() {
            format!("no coordinator answered on {subject}")
        } else {
            format!("NATS at {} can't be reached", self.address)
        }
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Warns if this connection leaves this machine without TLS.
    pub fn warn_of_plain_text(&self, url: &str) {
        if self.is_connected() {
            broker::warn_of_plain_text(&self.client, url);
        }
    }

    /// The error of another try to connect to `url`, while there is no connection.
    pub async fn refusal(&self, url: &str) -> Option<Refusal> {
        if self.is_connected() {
            return None;
        }
        let tried = broker::refusal(url, "ralph-worker");
        tokio::time::timeout(FIRST_TIMEOUT, tried).await.ok().flatten()
    }

    pub async fn hello(&self, hello: &Hello) -> anyhow::Result<HelloAnswer> {
        self.request(self.subjects.hello(), hello).await
    }

    /// Renews leases.
    pub async fn heartbeat(&self, beat: &Heartbeat) -> anyhow::Result<HeartbeatAnswer> {
        self.request(self.subjects.heartbeat(), beat).await
    }

    /// Asks for work. Without an answer, the same claim may be repeated.
    pub async fn claim(&self, claim: &ClaimRequest) -> anyhow::Result<ClaimAnswer> {
        self.request(self.subjects.claim(), claim).await
    }

    /// Asks whether an integration may be pushed. Without an answer, the same request may be repeated.
    pub async fn decide(&self, request: &DecideRequest) -> anyhow::Result<DecideAnswer> {
        self.request(self.subjects.decide(), request).await
    }

    /// Asks whether an agent's task graph can be used.
    pub async fn check(&self, request: &CheckRequest) -> anyhow::Result<CheckAnswer> {
        self.request(self.subjects.check(), request).await
    }

    /// Sends a call of a running session. Without an answer, the same call may be repeated.
    pub async fn session(&self, call: &SessionCall) -> anyhow::Result<CallAnswer> {
        self.request(self.subjects.session(), call).await
    }

    /// Asks which attempt refs may be deleted, and reports the result of the previous ones.
    ///
    /// # Errors
    /// Fails if nobody answers; the report may then be lost.
    pub async fn prune(&self, request: &PruneRequest) -> anyhow::Result<PruneAnswer> {
        self.request(self.subjects.prune(), request).await
    }

    /// Publishes a report and waits for the broker's acknowledgement.
    pub async fn report(&self, body: Bytes) -> anyhow::Result<()> {
        let ack = self.jetstream.publish(self.subjects.reports(), body).await?;
        tokio::time::timeout(self.timeout(), ack)
            .await
            .context("the broker did not acknowledge a report")??;
        Ok(())
    }

    pub async fn transcript(&self, batch: &TranscriptBatch) -> anyhow::Result<()> {
        let body = Bytes::from(serde_json::to_vec(batch)?);
        let ack = self
            .jetstream
            .publish(self.subjects.transcript(batch.dispatch), body)
            .await?;
        tokio::time::timeout(self.timeout(), ack)
            .await
            .context("the broker did not acknowledge a transcript")??;
        Ok(())
    }

    /// The tickets of a pool. Coordinators create their consumer when they welcome the worker.
    ///
    /// # Errors
    /// Fails if the consumer doesn't exist (yet, or after the store was wiped).
    pub async fn tickets(&self, pool: &str) -> anyhow::Result<PullConsumer> {
        let stream = self.subjects.tickets_stream();
        let consumer = self.subjects.tickets_consumer(pool);
        self.jetstream
            .get_consumer_from_stream(&consumer, &stream)
            .await
            .with_context(|| format!("the tickets of pool {pool} are not there"))
    }

    /// How often the connection was established. Requests from before the last time are lost.
    pub fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Subscribes to orders for this worker.
    pub async fn control(&self, worker: &str) -> anyhow::Result<async_nats::Subscriber> {
        Ok(self.client.subscribe(self.subjects.control(worker)).await?)
    }

    /// The longest message that the broker accepts. Bytes.
    pub fn most_bytes(&self) -> usize {
        match self.client.server_info().max_payload {
            // Not connected yet: the default limit of every server.
            0 => 1024 * 1024,
            most => most,
        }
    }

    pub async fn flush(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.client.flush()).await;
    }

    /// Converts a text for a message: inline, or stored in parts with the coordinator.
    pub async fn put_text(&self, text: String) -> anyhow::Result<Text> {
        if by_length(text.len(), || json_bytes(&text)) <= INLINE_BYTES {
            return Ok(Text::Inline(text));
        }
        let sha256 = sha256_hex(text.as_bytes());
        for (index, part) in text.as_bytes().chunks(PART_BYTES).enumerate() {
            let request = BlobRequest::Put {
                sha256: sha256.clone(),
                index: u32::try_from(index)?,
                base64: STANDARD.encode(part),
            };
            match self.request(self.subjects.blob(), &request).await? {
                BlobAnswer::Stored => {}
                other => bail!("part {index} of a text was not stored: {other:?}"),
            }
        }
        Ok(Text::Parts {
            sha256,
            size_bytes: text.len() as u64,
        })
    }

    /// The text of a message, checked against its hash.
    pub async fn get_text(&self, text: &Text) -> anyhow::Result<String> {
        let Text::Parts { sha256, .. } = text else {
            let Text::Inline(text) = text else {
                bail!("an unknown form of text")
            };
            return Ok(text.clone());
        };
        let mut whole = Vec::new();
        for index in 0..text.part_count() {
            let request = BlobRequest::Get {
                sha256: sha256.clone(),
                index,
            };
            match self.request(self.subjects.blob(), &request).await? {
                BlobAnswer::Part { base64 } => whole.extend(STANDARD.decode(base64)?),
                BlobAnswer::Missing => bail!(TextError::Missing {
                    sha256: sha256.clone()
                }),
                other => bail!("part {index} of a text was not given: {other:?}"),
            }
        }
        let actual = sha256_hex(&whole);
        if actual != *sha256 {
            bail!(TextError::WrongHash {
                sha256: sha256.clone(),
                actual
            });
        }
        Ok(String::from_utf8(whole)?)
    }
}

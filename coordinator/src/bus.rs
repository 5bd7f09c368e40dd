//! The coordinator's side of NATS: streams, tickets, signals. Nothing here decides, and nothing depends on
//! the arrival of a message.

mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, consumer};
use bytes::Bytes;
use ralph_shared::broker;
use ralph_shared::ids::{DispatchId, FeatureId, RunId};
use ralph_shared::subjects::Subjects;
use ralph_shared::wire::{Control, Ticket, TranscriptBatch, WRITES};

use crate::domain::text::excerpt::{Excerpt, Gathered};
use crate::faults;
use crate::store::dispatch::transcript::Holder;
use crate::tracer::Tracer;
use crate::waiting::Waiting;

/// Most waiting tickets of a pool; further ones follow as these go.
pub const TICKET_WINDOW: i64 = 1024;
/// An unacknowledged ticket goes to another worker after this.
const TICKET_ACK_WAIT: Duration = Duration::from_secs(3);
/// An unsettled report goes to another coordinator after this.
const REPORT_ACK_WAIT: Duration = Duration::from_secs(30);
/// Messages per read of a transcript.
const READER_BATCH: usize = 500;
/// The server deletes the consumer of a silent reader after this.
const READER_FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// A connection to NATS, and the names in use.
#[derive(Debug, Clone)]
pub struct Bus {
    pub client: async_nats::Client,
    pub jetstream: jetstream::Context,
    pub subjects: Subjects,
    /// Claims that wait in this process for work.
    pub waiting: Arc<Waiting>,
    tracer: Option<Tracer>,
}

/// Waiting tickets in the stream.
#[derive(Debug, Clone)]
pub struct WaitingTickets {
    /// Number of waiting tickets by pool.
    pub by_pool: BTreeMap<String, i64>,
    /// Number of pools with a consumer.
    pub consumers: usize,
}

/// Changes of a committed transaction, for receivers that would notice them later.
#[derive(Debug, Default, Clone)]
pub struct Signals {
    /// Pools with new work, and the number of tasks.
    pub work: BTreeMap<String, i64>,
    /// Features whose state changed.
    pub features: BTreeSet<FeatureId>,
    /// Orders to workers.
    pub control: Vec<(String, Control)>,
    pub ended: Vec<DispatchId>,
    pub ended_runs: Vec<RunId>,
    /// Runs that had ended and continue.
    pub resumed: Vec<RunId>,
}

impl Signals {
    /// Adds pools with new ready tasks, one entry per task.
    pub fn got_work(&mut self, pools: Vec<String>) {
        for pool in pools {
            *self.work.entry(pool).or_default() += 1;
        }
    }

    pub fn order(&mut self, worker: &str, control: Control) {
        self.control.push((worker.to_owned(), control));
    }

    /// Adds another transaction's signals.
    pub fn merge(&mut self, other: Self) {
        for (pool, n) in other.work {
            *self.work.entry(pool).or_default() += n;
        }
        self.features.extend(other.features);
        self.control.extend(other.control);
        self.ended.extend(other.ended);
        self.ended_runs.extend(other.ended_runs);
        self.resumed.extend(other.resumed);
    }
}

/// A reader of a transcript's messages, with its position.
#[derive(Debug)]
pub struct TranscriptReader {
    stream: jetstream::stream::Stream,
    consumer: PullConsumer,
}

/// Time limit of one read of a transcript.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

impl TranscriptReader {
    /// Messages since the last call, some hundred at most; empty when there are no new ones.
    ///
    /// # Errors
    /// When JetStream is away; a new reader starts over.
    pub async fn more(&self) -> anyhow::Result<Vec<Bytes>> {
        use futures::TryStreamExt as _;
        let fetch = async {
            let fetch = self.consumer.fetch().max_messages(READER_BATCH);
            let batch = fetch.messages().await?;
            let messages: Vec<_> = batch.try_collect().await.map_err(anyhow::Error::from_boxed)?;
            anyhow::Ok(messages)
        };
        // A request that was lost with its connection gets no answer.
        let messages = tokio::time::timeout(READ_TIMEOUT, fetch)
            .await
            .context("JetStream did not answer in time")??;
        Ok(messages
            .into_iter()
            .map(|message| message.message.payload)
            .collect())
    }

    /// Deletes the consumer before the server does.
    pub async fn close(self) {
        let _ = self
            .stream
            .delete_consumer(&self.consumer.cached_info().name)
            .await;
    }
}

/// The message to screens, which then ask for details.
#[derive(Debug, serde::Serialize)]
struct FeatureChanged {
    feature: FeatureId,
}

/// Why the streams cannot be created, and a remedy.
async fn unusable(url: &str) -> String {
    let at = broker::addresses(url);
    match broker::refusal(url, "ralph-coordinator").await {
        Some(why) => format!(
            "no connection to NATS at {at}: {why}; is a server running there, and does NATS_URL name it with its user and \
             password?"
        ),
        None => format!(
            "connected to NATS at {at}, but this user cannot use JetStream; start the server with JetStream \
             (`nats-server --jetstream`), and allow it to this user"
        ),
    }
}

impl Bus {
    /// Connects, and makes sure that the streams exist.
    ///
    /// # Errors
    /// When the server is away or does not offer JetStream.
    pub async fn connect(url: &str, subjects: Subjects) -> anyhow::Result<Self> {
        let client = broker::connect(url, "ralph-coordinator").await?;
        let jetstream = jetstream::new(client.clone());
        let bus = Self {
            client,
            jetstream,
            subjects,
            waiting: Arc::default(),
            tracer: None,
        };
        if let Err(error) = bus.ensure_streams().await {
            return Err(error.context(unusable(url).await));
        }
        Ok(bus)
    }

    /// Adds a tracer for ended dispatches and runs.
    #[must_use]
    pub fn traced(mut self, tracer: Option<Tracer>) -> Self {
        self.tracer = tracer;
        self
    }

    /// Creates missing streams, also after the server lost its data, and updates those of an earlier
    /// configuration. Leaves a stream of a later release as it is.
    pub async fn ensure_streams(&self) -> anyhow::Result<()> {
        for config in streams::configurations(&self.subjects) {
            let name = config.name.clone();
            let stream = self
                .jetstream
                .get_or_create_stream(config.clone())
                .await
                .with_context(|| format!("failed to create the JetStream stream {name}"))?;
            let Some(newer) = streams::updated(&stream.cached_info().config, config) else {
                continue;
            };
            match self.jetstream.update_stream(newer).await {
                Ok(_) => tracing::info!(stream = name, "updated the stream"),
                // The old configuration still works.
                Err(error) => tracing::warn!(%error, stream = name, "failed to update the stream"),
            }
        }
        Ok(())
    }

    /// The consumer of reports that all coordinators share.
    pub async fn reports(&self) -> anyhow::Result<PullConsumer> {
        let stream = self.jetstream.get_stream(self.subjects.reports_stream()).await?;
        let name = self.subjects.reports_consumer();
        let config = pull::Config {
            durable_name: Some(name.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: REPORT_ACK_WAIT,
            max_ack_pending: 4096,
            ..pull::Config::default()
        };
        Ok(stream.get_or_create_consumer(&name, config).await?)
    }

    /// Creates the consumer of a pool's tickets, if missing. Workers only use it (DESIGN 3).
    pub async fn ensure_ticket_consumer(&self, pool: &str) -> anyhow::Result<()> {
        let stream = self.jetstream.get_stream(self.subjects.tickets_stream()).await?;
        let name = self.subjects.tickets_consumer(pool);
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: self.subjects.tickets(pool),
            ack_policy: AckPolicy::Explicit,
            ack_wait: TICKET_ACK_WAIT,
            max_ack_pending: 100_000,
            ..pull::Config::default()
        };
        let _: consumer::Consumer<pull::Config> = stream.get_or_create_consumer(&name, config).await?;
        Ok(())
    }

    /// Publishes `n` tickets of a pool without waiting for each. The issuer replaces a lost one, and a spare
    /// one is harmless.
    pub async fn issue_tickets(&self, pool: &str, n: i64) {
        let Ok(body) = serde_json::to_vec(&Ticket {
            v: WRITES,
            pool: pool.to_owned(),
        }) else {
            return;
        };
        faults::point("ticket.before_issue");
        let body = Bytes::from(body);
        for _ in 0..n.clamp(0, TICKET_WINDOW) {
            if let Err(error) = self
                .client
                .publish(self.subjects.tickets(pool), body.clone())
                .await
            {
                tracing::debug!(%error, pool, "ticket not published; the issuer will replace it");
                return;
            }
        }
    }

    pub async fn waiting_tickets(&self) -> anyhow::Result<WaitingTickets> {
        use futures::TryStreamExt as _;
        let stream = self.jetstream.get_stream(self.subjects.tickets_stream()).await?;
        let mut waiting = WaitingTickets {
            by_pool: BTreeMap::new(),
            consumers: stream.cached_info().state.consumer_count,
        };
        let mut subjects = stream.info_with_subjects(self.subjects.tickets_all()).await?;
        while let Some((subject, n)) = subjects.try_next().await? {
            if let Some((_, pool)) = subject.rsplit_once('.') {
                let n = i64::try_from(n).unwrap_or(i64::MAX);
                waiting.by_pool.insert(pool.to_owned(), n);
            }
        }
        Ok(waiting)
    }

    /// Announces the changes of a transaction after its commit. A lost message only costs time.
    pub async fn emit(&self, signals: Signals) {
        let ended = signals.ended.len() as u64;
        if let Some(tracer) = &self.tracer {
            tracer.ended(signals.ended, signals.ended_runs);
        }
        for (pool, n) in signals.work {
            // Claims that wait in this process need no ticket.
            let needed = n - self.waiting.tell(&pool, n);
            self.issue_tickets(&pool, needed).await;
        }
        self.waiting.ended(ended);
        for (worker, control) in signals.control {
            self.publish_json(self.subjects.control(&worker), &control).await;
        }
        for feature in signals.features {
            self.publish_json(self.subjects.events(feature), &FeatureChanged { feature })
                .await;
        }
    }

    async fn publish_json(&self, subject: String, message: &impl serde::Serialize) {
        let Ok(body) = serde_json::to_vec(message) else {
            return;
        };
        if let Err(error) = self.client.publish(subject, body.into()).await {
            tracing::debug!(%error, "signal not published");
        }
    }

    /// Dispatches with transcript messages in the stream, at most `limit`.
    pub async fn transcripts_in_stream(&self, limit: usize) -> anyhow::Result<Vec<DispatchId>> {
        use futures::TryStreamExt as _;
        let stream = self
            .jetstream
            .get_stream(self.subjects.transcripts_stream())
            .await?;
        let mut dispatches = Vec::new();
        let mut subjects = stream.info_with_subjects(self.subjects.transcripts_all()).await?;
        while let Some((subject, _)) = subjects.try_next().await? {
            let id = subject
                .rsplit_once('.')
                .and_then(|(_, id)| uuid::Uuid::parse_str(id).ok());
            dispatches.extend(id.map(DispatchId));
            if dispatches.len() >= limit {
                break;
            }
        }
        Ok(dispatches)
    }

    /// Deletes a dispatch's transcript from the stream.
    pub async fn forget_transcript(&self, dispatch: DispatchId) -> anyhow::Result<()> {
        let stream = self
            .jetstream
            .get_stream(self.subjects.transcripts_stream())
            .await?;
        stream.purge().filter(self.subjects.transcript(dispatch)).await?;
        Ok(())
    }

    /// A dispatch's transcript in the stream, shortened to `excerpt`. Omits messages that are unreadable or
    /// not from the `holder`.
    pub async fn transcript(
        &self,
        dispatch: DispatchId,
        holder: &Holder,
        excerpt: Excerpt,
    ) -> anyhow::Result<Gathered> {
        let reader = self.read_transcript(dispatch).await?;
        let mut gathered = Gathered::new(excerpt);
        loop {
            let more = reader.more().await?;
            if more.is_empty() {
                reader.close().await;
                return Ok(gathered);
            }
            for body in more {
                let batch = serde_json::from_slice::<TranscriptBatch>(&body).ok();
                for entry in batch
                    .filter(|batch| holder.sent(batch))
                    .into_iter()
                    .flat_map(|batch| batch.entries)
                {
                    let bytes = serde_json::to_vec(&entry)?.len();
                    gathered.push(entry, bytes);
                }
            }
        }
    }

    /// Starts a read of a dispatch's transcript, from the first message in the stream.
    pub async fn read_transcript(&self, dispatch: DispatchId) -> anyhow::Result<TranscriptReader> {
        let stream = self
            .jetstream
            .get_stream(self.subjects.transcripts_stream())
            .await?;
        let config = consumer::pull::Config {
            filter_subject: self.subjects.transcript(dispatch),
            deliver_policy: consumer::DeliverPolicy::All,
            ack_policy: AckPolicy::None,
            inactive_threshold: READER_FORGOTTEN_AFTER,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await?;
        Ok(TranscriptReader { stream, consumer })
    }
}

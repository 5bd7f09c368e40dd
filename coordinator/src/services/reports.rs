//! Reports are taken from the stream in batches and settled: applied, superseded, or kept aside. Only then are they acked.

use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use futures::StreamExt as _;
use ralph_shared::ids::DispatchId;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::incoming::{self, Read};
use super::unread::Unread;
use crate::faults;
use crate::flow::apply::{self, Fate};
use crate::store;

/// Reports of one transaction.
const MAX_BATCH: usize = 128;
/// How long a report rests that can't be read or applied now.
const HAND_BACK: Duration = Duration::from_secs(2);
/// After so many deliveries a report whose text never came is applied without it.
const MAX_DELIVERIES: i64 = 20;
/// How long one request for reports stays open.
const EXPIRES: Duration = Duration::from_secs(5);

/// Applies reports until `shutdown`.
pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    deps.bus.ensure_streams().await?;
    let consumer = deps.bus.reports().await?;
    let messages = consumer
        .stream()
        .max_messages_per_batch(2 * MAX_BATCH)
        .expires(EXPIRES)
        .heartbeat(Duration::from_secs(2))
        .messages()
        .await?;
    let mut batches = messages.ready_chunks(MAX_BATCH);
    let mut unread = Unread::default();
    loop {
        let batch = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            batch = batches.next() => batch,
        };
        let Some(batch) = batch else {
            anyhow::bail!("the consumer of reports ended")
        };
        let mut taken = Vec::with_capacity(batch.len());
        let mut broken = None;
        for message in batch {
            match message {
                Ok(message) => taken.push(message),
                Err(error) => broken = Some(error),
            }
        }
        settle(deps, &mut unread, taken).await;
        if let Some(error) = broken {
            anyhow::bail!("the consumer of reports failed: {error}");
        }
    }
}

async fn settle(deps: &Deps, unread: &mut Unread, messages: Vec<Message>) {
    let mut reports = Vec::with_capacity(messages.len());
    let mut acks = Vec::with_capacity(messages.len());
    for message in messages {
        let last_try = message.info().is_ok_and(|info| info.delivered >= MAX_DELIVERIES);
        match incoming::read(&deps.db, &message.payload, last_try).await {
            Ok(Read::Report(report)) => {
                reports.push(*report);
                acks.push(message);
            }
            Ok(Read::Later { dispatch, reason }) => {
                let sequence = message.info().map_or(0, |info| info.stream_sequence);
                if dispatch.is_none_or(|dispatch| unread.keeps(dispatch, sequence)) {
                    tracing::warn!(reason, ?dispatch, "report handed back");
                    hand_back(&message).await;
                } else {
                    ack(&message).await;
                }
            }
            Ok(Read::Never { dispatch, reason }) => set_aside(deps, &message, dispatch, &reason).await,
            Err(error) => {
                tracing::warn!(%error, "report handed back");
                hand_back(&message).await;
            }
        }
    }
    if reports.is_empty() {
        return;
    }
    match apply::apply(&deps.db, &deps.settings, &reports).await {
        Ok((fates, signals)) => {
            deps.bus.emit(signals).await;
            for ((message, report), fate) in acks.iter().zip(&reports).zip(fates) {
                faults::point("report.before_ack");
                match fate {
                    Fate::Unknown => {
                        let reason = "its dispatch is not known here";
                        set_aside(deps, message, Some(report.report.dispatch), reason).await;
                    }
                    Fate::Stuck => hand_back(message).await,
                    Fate::Applied | Fate::Superseded | Fate::Poisoned => ack(message).await,
                }
            }
        }
        Err(error) => {
            tracing::warn!(%error, reports = reports.len(), "reports could not be applied now; handed back");
            for message in &acks {
                hand_back(message).await;
            }
        }
    }
}

async fn ack(message: &Message) {
    if let Err(error) = message.ack().await {
        tracing::debug!(%error, "ack not sent; the report comes again and changes nothing");
    }
}

async fn hand_back(message: &Message) {
    let _ = message.ack_with(AckKind::Nak(Some(HAND_BACK))).await;
}

/// Keeps a message raw that is no report of ours, ends the attempt that it names, and takes it from the stream; if that
/// fails it comes again.
async fn set_aside(deps: &Deps, message: &Message, dispatch: Option<DispatchId>, reason: &str) {
    tracing::error!(reason, ?dispatch, "report set aside in bad_reports");
    match keep_bad(deps, message, dispatch, reason).await {
        Ok(()) => ack(message).await,
        Err(error) => {
            tracing::warn!(%error, "report handed back");
            hand_back(message).await;
        }
    }
}

async fn keep_bad(
    deps: &Deps,
    message: &Message,
    dispatch: Option<DispatchId>,
    reason: &str,
) -> sqlx::Result<()> {
    let mut conn = deps.db.acquire().await?;
    store::blob::keep_bad_report(&mut conn, dispatch.map(|d| d.0), reason, &message.payload).await?;
    drop(conn);
    if let Some(dispatch) = dispatch {
        let message = format!("its report can't be read: {reason}");
        let signals = apply::end_as_error(&deps.db, &deps.settings, dispatch, message).await?;
        deps.bus.emit(signals).await;
    }
    Ok(())
}

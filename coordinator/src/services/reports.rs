//! Takes reports from the stream in batches and settles them: applied, superseded, or set aside. Acknowledges
//! them only then.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream::{AckKind, Message};
use futures::StreamExt as _;
use ralph_shared::ids::DispatchId;
use ralph_shared::subjects::is_label;
use ralph_shared::wire::{Control, MAX_TEXT_BYTES, Settled, Settlement};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Deps;
use super::incoming::{self, IncomingMessage};
use crate::faults;
use crate::flow::Signals;
use crate::flow::apply::{self, Incoming, ReportFate, Sender};
use crate::services::dead_letters::Unread;
use crate::store;

/// Reports of one transaction.
const MAX_BATCH: usize = 128;
/// Most text of one batch, since each report may have as much; further reports form another one. Bytes.
const MAX_BATCH_BYTES: usize = MAX_TEXT_BYTES;
/// Delay of a report that cannot be read or applied now.
const REDELIVERY_DELAY: Duration = Duration::from_secs(2);
/// Deliveries after which a report is applied without its missing text.
const MAX_DELIVERIES: i64 = 20;
/// How long one request for reports stays open.
const EXPIRES: Duration = Duration::from_secs(5);

/// Most applied batches before a flush; the next one waits.
const MAX_UNFLUSHED: usize = 8;

/// A batch to apply, with its messages.
#[derive(Debug, Default)]
struct Batch {
    reports: Vec<Incoming>,
    messages: Vec<Message>,
}

/// An applied batch. Its consequences are announced already; its workers learn of it after the flush.
#[derive(Debug)]
struct Applied {
    taken: Batch,
    fates: Vec<ReportFate>,
}

/// Applies reports until `shutdown`. While one batch is applied, the next one is read, and earlier ones are
/// flushed.
pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let (sender, mut batches) = mpsc::channel(1);
    let (applied, mut unflushed) = mpsc::channel(MAX_UNFLUSHED);
    let mut settling = JoinSet::new();
    settling.spawn({
        let deps = deps.clone();
        async move {
            while let Some(taken) = batches.recv().await {
                if let Some(one) = apply(&deps, taken).await
                    && applied.send(one).await.is_err()
                {
                    return;
                }
            }
        }
    });
    settling.spawn({
        let deps = deps.clone();
        async move {
            let mut several = Vec::with_capacity(MAX_UNFLUSHED);
            while unflushed.recv_many(&mut several, MAX_UNFLUSHED).await > 0 {
                conclude(&deps, std::mem::take(&mut several)).await;
            }
        }
    });
    let read = read(deps, sender, shutdown).await;
    // All batches are settled before this ends.
    while let Some(ended) = settling.join_next().await {
        ended.context("applying reports ended")?;
    }
    read
}

/// Takes reports until `shutdown`, or until the task that applies them ends.
async fn read(deps: &Deps, sender: mpsc::Sender<Batch>, shutdown: &CancellationToken) -> anyhow::Result<()> {
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
        // Waits for a free slot first, so that reports that arrive meanwhile form one batch.
        let room = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            room = sender.reserve() => room.context("applying reports ended")?,
        };
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
        room.send(take(deps, &mut unread, taken).await);
        if let Some(error) = broken {
            anyhow::bail!("the consumer of reports failed: {error}");
        }
    }
}

/// Reads messages. Hands back reports that cannot be applied now, and sets aside reports that never can be.
async fn take(deps: &Deps, unread: &mut Unread, messages: Vec<Message>) -> Batch {
    let mut taken = Batch::default();
    let mut bytes = 0;
    for message in messages {
        if bytes > MAX_BATCH_BYTES {
            redeliver(&message).await;
            continue;
        }
        let last_try = message.info().is_ok_and(|info| info.delivered >= MAX_DELIVERIES);
        match incoming::read(&deps.db, &message.payload, last_try).await {
            Ok(IncomingMessage::Report(report)) => {
                bytes += report.text.len();
                taken.reports.push(*report);
                taken.messages.push(message);
            }
            Ok(IncomingMessage::Later { dispatch, reason }) => {
                let sequence = message.info().map_or(0, |info| info.stream_sequence);
                if dispatch.is_none_or(|dispatch| unread.is_newest(dispatch, sequence)) {
                    tracing::warn!(reason, ?dispatch, "report handed back");
                    redeliver(&message).await;
                } else {
                    ack(&message).await;
                }
            }
            Ok(IncomingMessage::Never {
                dispatch,
                sender,
                reason,
            }) => set_aside(deps, &message, dispatch, sender, &reason).await,
            Err(error) => {
                tracing::warn!(%error, "report handed back");
                redeliver(&message).await;
            }
        }
    }
    if let Err(error) = apply::prepare(&deps.reserved.reports, &deps.settings, &mut taken.reports).await {
        tracing::debug!(%error, "reports are read within their transaction");
    }
    taken
}

/// Applies a batch, and announces its consequences.
async fn apply(deps: &Deps, taken: Batch) -> Option<Applied> {
    if taken.reports.is_empty() {
        return None;
    }
    match apply::apply(&deps.reserved.reports, &deps.settings, &taken.reports).await {
        Ok((fates, signals)) => {
            deps.bus.emit(signals).await;
            Some(Applied { taken, fates })
        }
        Err(error) => {
            let reports = taken.reports.len();
            tracing::warn!(%error, reports, "reports could not be applied now; handed back");
            for message in &taken.messages {
                redeliver(message).await;
            }
            None
        }
    }
}

/// Waits until batches are on the disk, and only then settles them: their workers delete the reports, and so
/// does the stream.
async fn conclude(deps: &Deps, applied: Vec<Applied>) {
    if let Err(error) = store::flush(&deps.reserved.reports).await {
        tracing::warn!(%error, "reports may not be durable yet; handed back");
        for message in applied.iter().flat_map(|one| &one.taken.messages) {
            redeliver(message).await;
        }
        return;
    }
    for Applied { taken, fates } in applied {
        let mut signals = Signals::default();
        tell(&mut signals, &taken.reports, &fates);
        deps.bus.emit(signals).await;
        for ((message, report), fate) in taken.messages.iter().zip(&taken.reports).zip(fates) {
            faults::point("report.before_ack");
            match fate {
                ReportFate::Unknown => {
                    let reason = "its dispatch is not known here";
                    set_aside(deps, message, Some(report.report.dispatch), None, reason).await;
                }
                ReportFate::Foreign => {
                    let reason = "its sender does not hold its dispatch";
                    set_aside(deps, message, Some(report.report.dispatch), None, reason).await;
                }
                ReportFate::Stuck => redeliver(message).await,
                ReportFate::Applied | ReportFate::Superseded | ReportFate::Poisoned => ack(message).await,
            }
        }
    }
}

/// Tells workers about settlements before their heartbeats ask: every heartbeat looks up all dispatches that
/// its worker still names.
fn tell(signals: &mut Signals, reports: &[Incoming], fates: &[ReportFate]) {
    let mut by_worker: BTreeMap<&str, Vec<Settled>> = BTreeMap::new();
    for (incoming, fate) in reports.iter().zip(fates) {
        // Heartbeats answer this too, but never ask about a push that is reported late.
        let settlement = match fate {
            ReportFate::Applied | ReportFate::Poisoned => Settlement::Applied,
            ReportFate::Superseded => Settlement::Superseded,
            ReportFate::Unknown => Settlement::UnknownDispatch,
            // The holder of the dispatch must not learn the fate of another worker's report.
            ReportFate::Stuck | ReportFate::Foreign => continue,
        };
        let report = &incoming.report;
        if is_label(&report.worker) {
            by_worker.entry(&report.worker).or_default().push(Settled {
                dispatch: report.dispatch,
                settlement,
                pushed: report.is_pushed(),
            });
        }
    }
    for (worker, settled) in by_worker {
        signals.order(worker, Control::Settled { settled });
    }
}

async fn ack(message: &Message) {
    if let Err(error) = message.ack().await {
        tracing::debug!(%error, "ack not sent; the report comes again and changes nothing");
    }
}

async fn redeliver(message: &Message) {
    let _ = message.ack_with(AckKind::Nak(Some(REDELIVERY_DELAY))).await;
}

/// Keeps an unusable message raw, ends the attempt that it names if the sender holds it, and deletes it from
/// the stream. After a failure the broker sends it again.
async fn set_aside(
    deps: &Deps,
    message: &Message,
    dispatch: Option<DispatchId>,
    sender: Option<Sender>,
    reason: &str,
) {
    tracing::error!(reason, ?dispatch, "report set aside in bad_reports");
    match keep_bad(deps, message, dispatch, sender.as_ref(), reason).await {
        Ok(()) => ack(message).await,
        Err(error) => {
            tracing::warn!(%error, "report handed back");
            redeliver(message).await;
        }
    }
}

async fn keep_bad(
    deps: &Deps,
    message: &Message,
    dispatch: Option<DispatchId>,
    sender: Option<&Sender>,
    reason: &str,
) -> sqlx::Result<()> {
    let mut conn = deps.db.acquire().await?;
    store::blob::keep_bad_report(&mut conn, dispatch, reason, &message.payload).await?;
    let (Some(dispatch), Some(sender)) = (dispatch, sender) else {
        return Ok(());
    };
    let holds = apply::may_report(&mut conn, sender, dispatch).await?;
    drop(conn);
    if holds {
        let message = format!("its report can't be read: {reason}");
        let signals = apply::end_as_error(&deps.db, &deps.settings, dispatch, message).await?;
        deps.bus.emit(signals).await;
        store::flush(&deps.db).await?;
    }
    Ok(())
}

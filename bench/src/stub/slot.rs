//! A stub's slot, like a worker's: claim, report, claim again; without work, wait for a ticket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::PullConsumer;
use futures::StreamExt as _;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Assignment, ClaimAnswer};

use super::instance::Instance;
use super::log::{Log, Mark, now};
use super::text;

/// How long a slot waits for a ticket before it claims without one.
const WAIT: Duration = Duration::from_secs(25);
/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(500);

pub async fn run(instance: Arc<Instance>, log: Arc<Option<Log>>, work_ms: u64) -> anyhow::Result<()> {
    let mut tickets = None;
    let mut asked = None;
    loop {
        let claim = *asked.get_or_insert_with(DispatchId::new);
        match instance.claim(claim).await {
            Ok(ClaimAnswer::Assigned { assignment }) => {
                work(&instance, log.as_ref().as_ref(), *assignment, work_ms).await?;
                asked = None;
            }
            Ok(ClaimAnswer::Nothing) => {
                asked = None;
                ticket(&instance, &mut tickets).await;
            }
            Ok(ClaimAnswer::NotNow { retry_after_ms, .. }) => {
                tokio::time::sleep(Duration::from_millis(retry_after_ms)).await;
            }
            Ok(answer) => anyhow::bail!("the stub's claim was not taken: {answer:?}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn work(
    instance: &Instance,
    log: Option<&Log>,
    assignment: Assignment,
    work_ms: u64,
) -> anyhow::Result<()> {
    let (arrived, began) = (now(), Instant::now());
    instance.started(assignment.dispatch);
    if let Some(log) = log {
        log.note(Mark::Started, &assignment.task_title, arrived)?;
    }
    if work_ms > 0 {
        tokio::time::sleep(Duration::from_millis(work_ms)).await;
    }
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = text::report(
        &instance.name,
        instance.incarnation,
        assignment.dispatch,
        assignment.task,
        duration_ms,
    );
    if let Some(log) = log {
        log.note(Mark::Ended, &assignment.task_title, now())?;
    }
    while instance.report(&report).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn ticket(instance: &Instance, consumer: &mut Option<PullConsumer>) {
    if consumer.is_none() {
        let name = instance.subjects.tickets_consumer("default");
        let stream = instance.subjects.tickets_stream();
        *consumer = instance
            .jetstream
            .get_consumer_from_stream(&name, &stream)
            .await
            .ok();
    }
    let got = match consumer.as_ref() {
        Some(consumer) => one(consumer).await.is_ok(),
        None => false,
    };
    if !got {
        *consumer = None;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn one(consumer: &PullConsumer) -> Result<(), async_nats::Error> {
    // Without idle heartbeats: after one, the next message does not wake the batch (async-nats 0.51).
    let mut batch = consumer.fetch().max_messages(1).expires(WAIT).messages().await?;
    while let Some(message) = batch.next().await {
        message?.ack().await?;
    }
    Ok(())
}

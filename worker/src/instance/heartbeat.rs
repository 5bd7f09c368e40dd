//! Heartbeats renew leases, bring settlements of spooled reports, and bring orders. They also publish spooled
//! reports until they are settled (DESIGN 2). Reports of late pushes are sent until an order acknowledges
//! them; heartbeats don't name them, since their dispatch is settled already.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Control, EndReason, Heartbeat, HeartbeatAnswer, READS};
use tokio::task::JoinSet;

use crate::dispatch::outgoing;
use crate::faults;
use crate::instance::{HelloResult, Instance};
use crate::reminder::Reminder;
use crate::spool::Spool;

/// Runs until the process ends, drain included. Each loop is a task, so that none delays another. The first
/// one that panics ends the others.
pub async fn run(instance: Arc<Instance>) {
    let mut loops = JoinSet::new();
    loops.spawn(renew(Arc::clone(&instance)));
    loops.spawn(publish(Arc::clone(&instance)));
    loops.spawn(orders(instance));
    if let Some(Err(error)) = loops.join_next().await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Runs beside the heartbeats, since storing a long report or a disk write may take longer than a lease.
async fn publish(instance: Arc<Instance>) {
    loop {
        at_length(|| {
            instance.home.note_alive();
            if instance.in_contact() {
                instance.home.note_ready();
            }
        });
        publish_spooled(&instance).await;
        publish_retained(&instance).await;
        let pause = instance.times().heartbeat;
        tokio::time::sleep(pause.min(Duration::from_secs(1))).await;
    }
}

async fn renew(instance: Arc<Instance>) {
    let mut silence = Reminder::default();
    loop {
        send_heartbeat(&instance, &mut silence).await;
        let times = instance.times();
        if times.heard.elapsed() > times.dark_limit {
            instance.end_all(EndReason::OutOfContact);
        }
        let pause = if instance.in_contact() {
            times.heartbeat
        } else {
            times.heartbeat.min(Duration::from_secs(1))
        };
        tokio::select! {
            () = instance.heartbeat_now.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Publishes every due report to the broker.
pub async fn publish_spooled(instance: &Instance) {
    // Half a lease: a coordinator that died with a report must not keep it from the others for long.
    let again = instance.times().lease / 2;
    let due = instance.spool.due(Instant::now(), again);
    if !publish_from(instance, &instance.spool, due).await {
        return;
    }
    // A late report sent before the session's own report would be taken for it.
    let reported = instance.spool.dispatches();
    let mut late = instance.late.due(Instant::now(), again);
    late.retain(|dispatch| !reported.contains(dispatch));
    publish_from(instance, &instance.late, late).await;
}

/// Publishes these reports of a spool. Returns `false` if the broker accepts none now.
async fn publish_from(instance: &Instance, spool: &Spool, due: Vec<DispatchId>) -> bool {
    for dispatch in due {
        let Some(spooled) = spool.read(dispatch) else {
            continue;
        };
        let body = match outgoing::message(instance, &spooled).await {
            Ok(body) => body,
            // One broken report must not hold up the others.
            Err(error) => {
                tracing::warn!(%dispatch, error = format!("{error:#}"), "a report can't be sent yet; it stays in the spool");
                continue;
            }
        };
        let too_large = body.len() > instance.broker.most_bytes();
        match instance.broker.report(body).await {
            Ok(()) => spool.published(dispatch, Instant::now()),
            Err(error) if too_large => {
                tracing::error!(%dispatch, error = format!("{error:#}"), "a report is too large for the broker; it stays in the spool");
            }
            Err(error) => {
                tracing::warn!(%dispatch, error = format!("{error:#}"), "report not published; it stays in the spool");
                return false;
            }
        }
    }
    true
}

/// Republishes transcripts that no coordinator stores though their reports are settled.
async fn publish_retained(instance: &Instance) {
    let reported = instance.spool.dispatches();
    for dispatch in instance
        .transcripts
        .due(Instant::now(), instance.times().lease * 2)
    {
        if reported.contains(&dispatch) || instance.is_running(dispatch) {
            continue;
        }
        for mut batch in instance.transcripts.batches(dispatch) {
            batch.origin = Some(instance.origin());
            if let Err(error) = instance.broker.transcript(&batch).await {
                tracing::debug!(%dispatch, error = format!("{error:#}"), "a transcript could not be sent again yet");
                return;
            }
        }
        instance.transcripts.sent(dispatch);
    }
}

async fn send_heartbeat(instance: &Instance, silence: &mut Reminder) {
    faults::point("beat");
    let beat = Heartbeat {
        reads: READS.to_vec(),
        worker: instance.config.name.clone(),
        incarnation: instance.incarnation,
        running: instance.running(),
        spooled: instance.spool.dispatches(),
        free_slots: instance.free_slots(),
        draining: instance.draining.is_cancelled(),
        doors: instance.unavailable_agents(),
        answered: instance.answered(),
        used: instance.allowances.used(),
        transcripts: instance.transcripts.next_to_confirm(),
        heard: instance.audience.delivered(),
        warm_bytes: Some(instance.workspaces.warm_bytes()),
    };
    match instance.broker.heartbeat(&beat).await {
        Ok(HeartbeatAnswer::Renewed {
            settled,
            end,
            drain,
            shares,
            archived,
            words,
        }) => {
            instance.note_heartbeat(true);
            instance.transcripts.forget(&archived);
            instance.allowances.grant(&shares);
            instance.audience.acknowledge(&beat.heard);
            instance.audience.take(words);
            if silence.over() {
                tracing::info!("in contact again");
            }
            instance.forget_answers(&beat.answered);
            for one in settled {
                instance.spool.settle(one.dispatch, one.settlement);
            }
            for one in end {
                instance.end(one.dispatch, one.reason);
            }
            if drain && !instance.draining.is_cancelled() {
                tracing::info!("a coordinator ordered a drain");
                instance.drain();
            }
        }
        Ok(HeartbeatAnswer::SayHello) => say_hello_again(instance).await,
        Ok(HeartbeatAnswer::Unknown) => tracing::warn!("the heartbeat's answer is of a later release"),
        Err(error) => {
            instance.note_heartbeat(false);
            let error = format!("{error:#}");
            if silence.is_due(&error, Instant::now()) {
                tracing::warn!(error, "out of contact");
            }
        }
    }
}

async fn say_hello_again(instance: &Instance) {
    // Out of contact until the coordinator welcomes it: another worker may have its name now, and the dark
    // limit must count.
    if instance.in_contact() {
        tracing::info!("the coordinator doesn't know this worker; saying hello");
    }
    instance.note_heartbeat(false);
    match instance.hello_once(&[]).await {
        Ok(HelloResult::Later { reason, .. }) => {
            tracing::warn!(reason, "not welcome yet; saying hello again")
        }
        Ok(_) => {}
        Err(error) => {
            let reason = format!("{error:#}");
            tracing::error!(error = reason, "refused; draining");
            let _ = instance.refused.set(reason);
            instance.draining.cancel();
        }
    }
}

/// Receives orders that must not wait for the next heartbeat.
async fn orders(instance: Arc<Instance>) {
    loop {
        match instance.broker.control(&instance.config.name).await {
            Ok(mut orders) => {
                while let Some(message) = orders.next().await {
                    match serde_json::from_slice::<Control>(&message.payload) {
                        Ok(Control::End { dispatch, reason }) => instance.end(dispatch, reason),
                        Ok(Control::Beat | Control::Unknown) => instance.heartbeat_now.notify_one(),
                        Ok(Control::Settled { settled }) => {
                            for one in settled {
                                instance.spool.settle(one.dispatch, one.settlement);
                                if one.pushed {
                                    instance.late.settle(one.dispatch, one.settlement);
                                }
                            }
                        }
                        Ok(Control::Prune) => instance.prune_now.notify_one(),
                        Ok(Control::Drain) => instance.drain(),
                        Err(error) => tracing::warn!(%error, "an order can't be read"),
                    }
                }
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "can't listen for orders"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

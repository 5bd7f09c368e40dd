//! Heartbeats: leases are renewed, settled reports leave the spool, orders arrive. They also publish what waits in the
//! spool, so that a report is sent until it is settled (DESIGN 2). What was pushed after its report is sent until an order says
//! that it is known: heartbeats don't name it, since its dispatch is settled already.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Control, EndReason, Heartbeat, HeartbeatAnswer, READS};
use tokio::task::JoinSet;

use crate::dispatch::outgoing;
use crate::faults;
use crate::instance::{Hearing, Life};
use crate::reminder::Reminder;
use crate::spool::Spool;

/// Renewals go on until the process ends, drain included. Each loop is a task: what one works through must not keep another.
/// The first that panics ends the others.
pub async fn run(life: Arc<Life>) {
    let mut loops = JoinSet::new();
    loops.spawn(renew(Arc::clone(&life)));
    loops.spawn(publish(Arc::clone(&life)));
    loops.spawn(orders(life));
    if let Some(Err(error)) = loops.join_next().await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Beside the heartbeats: a long report's text may take longer to put than a lease lasts, and a disk to be written to.
async fn publish(life: Arc<Life>) {
    loop {
        at_length(|| {
            life.home.note_alive();
            if life.in_contact() {
                life.home.note_ready();
            }
        });
        publish_spooled(&life).await;
        publish_kept(&life).await;
        let pause = life.times().heartbeat;
        tokio::time::sleep(pause.min(Duration::from_secs(1))).await;
    }
}

async fn renew(life: Arc<Life>) {
    let mut silence = Reminder::default();
    loop {
        beat(&life, &mut silence).await;
        let times = life.times();
        if times.heard.elapsed() > times.dark_limit {
            life.end_all(EndReason::OutOfContact);
        }
        let pause = if life.in_contact() {
            times.heartbeat
        } else {
            times.heartbeat.min(Duration::from_secs(1))
        };
        tokio::select! {
            () = life.beat_now.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Gives every due report to the broker.
pub async fn publish_spooled(life: &Life) {
    // A coordinator that died with it in its hands must not keep others from it for long.
    let again = life.times().lease / 2;
    let due = life.spool.due(Instant::now(), again);
    if !publish_from(life, &life.spool, due).await {
        return;
    }
    // Before the session's own report it would be taken for that.
    let reported = life.spool.dispatches();
    let mut late = life.late.due(Instant::now(), again);
    late.retain(|dispatch| !reported.contains(dispatch));
    publish_from(life, &life.late, late).await;
}

/// Publishes these reports of a spool; `false` when the broker takes none now.
async fn publish_from(life: &Life, spool: &Spool, due: Vec<DispatchId>) -> bool {
    for dispatch in due {
        let Some(spooled) = spool.read(dispatch) else {
            continue;
        };
        let body = match outgoing::message(life, &spooled).await {
            Ok(body) => body,
            // What keeps one report must not keep the others.
            Err(error) => {
                tracing::warn!(%dispatch, error = format!("{error:#}"), "a report can't be sent yet; it stays in the spool");
                continue;
            }
        };
        let too_large = body.len() > life.link.most_bytes();
        match life.link.report(body).await {
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

/// Sends transcripts again that no coordinator keeps though their reports are settled.
async fn publish_kept(life: &Life) {
    let reported = life.spool.dispatches();
    for dispatch in life.transcripts.due(Instant::now(), life.times().lease * 2) {
        if reported.contains(&dispatch) || life.is_running(dispatch) {
            continue;
        }
        for mut batch in life.transcripts.batches(dispatch) {
            batch.origin = Some(life.origin());
            if let Err(error) = life.link.transcript(&batch).await {
                tracing::debug!(%dispatch, error = format!("{error:#}"), "a transcript could not be sent again yet");
                return;
            }
        }
        life.transcripts.sent(dispatch);
    }
}

async fn beat(life: &Life, silence: &mut Reminder) {
    faults::point("beat");
    let beat = Heartbeat {
        reads: READS.to_vec(),
        worker: life.config.name.clone(),
        incarnation: life.incarnation,
        running: life.running(),
        spooled: life.spool.dispatches(),
        free_slots: life.free_slots(),
        draining: life.draining.is_cancelled(),
        doors: life.closed_doors(),
        answered: life.answered(),
        used: life.allowances.used(),
        transcripts: life.transcripts.held(),
    };
    match life.link.heartbeat(&beat).await {
        Ok(HeartbeatAnswer::Renewed {
            settled,
            end,
            drain,
            shares,
            archived,
        }) => {
            life.heard(true);
            life.transcripts.forget(&archived);
            life.allowances.grant(&shares);
            if silence.over() {
                tracing::info!("in contact again");
            }
            life.answers_are_known(&beat.answered);
            for one in settled {
                life.spool.settle(one.dispatch, one.settlement);
            }
            for one in end {
                life.end(one.dispatch, one.reason);
            }
            if drain && !life.draining.is_cancelled() {
                tracing::info!("told to drain");
                life.told_to_drain();
            }
        }
        Ok(HeartbeatAnswer::SayHello) => {
            // Out of contact until it is welcome: another may have its name by now, and the dark limit has to count.
            if life.in_contact() {
                tracing::info!("the coordinator doesn't know this worker; saying hello");
            }
            life.heard(false);
            match life.hello_once(&[]).await {
                Ok(Hearing::Later { reason, .. }) => {
                    tracing::warn!(reason, "not welcome yet; saying hello again")
                }
                Ok(_) => {}
                Err(error) => {
                    let reason = format!("{error:#}");
                    tracing::error!(error = reason, "refused; draining");
                    let _ = life.refused.set(reason);
                    life.draining.cancel();
                }
            }
        }
        Ok(HeartbeatAnswer::Unknown) => tracing::warn!("the heartbeat's answer is of a later release"),
        Err(error) => {
            life.heard(false);
            let error = format!("{error:#}");
            if silence.is_due(&error, Instant::now()) {
                tracing::warn!(error, "out of contact");
            }
        }
    }
}

/// Orders that come sooner than the next heartbeat's answer.
async fn orders(life: Arc<Life>) {
    loop {
        match life.link.control(&life.config.name).await {
            Ok(mut orders) => {
                while let Some(message) = orders.next().await {
                    match serde_json::from_slice::<Control>(&message.payload) {
                        Ok(Control::End { dispatch, reason }) => life.end(dispatch, reason),
                        Ok(Control::Beat | Control::Unknown) => life.beat_now.notify_one(),
                        Ok(Control::Settled { settled }) => {
                            for one in settled {
                                life.spool.settle(one.dispatch, one.settlement);
                                if one.pushed {
                                    life.late.settle(one.dispatch, one.settlement);
                                }
                            }
                        }
                        Ok(Control::Prune) => life.prune_now.notify_one(),
                        Ok(Control::Drain) => life.told_to_drain(),
                        Err(error) => tracing::warn!(%error, "an order can't be read"),
                    }
                }
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "can't listen for orders"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

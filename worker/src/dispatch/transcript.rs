//! Sends a session's transcript to the broker, and stores it on disk in case the broker loses it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{TranscriptBatch, WRITES};

use crate::instance::Instance;
use crate::instance::availability::FirstAnswer;
use crate::session::TranscriptReceiver;

/// Pause before the next part goes to a broker that rejected one.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Publishes a session's transcript until the session ends. A part that the broker rejects several times is
/// missing from the live view, and is sent again after the session. After a rejection nothing is sent for a
/// while.
pub(in crate::dispatch) async fn publish(
    instance: Arc<Instance>,
    dispatch: DispatchId,
    mut receiver: TranscriptReceiver,
) {
    let mut first = FirstAnswer::default();
    let mut missed: Option<Instant> = None;
    while let Some(entries) = receiver.next_batch().await {
        if entries.iter().any(|entry| first.is_in(&entry.update)) {
            instance.note_answer(dispatch);
        }
        let batch = TranscriptBatch {
            v: WRITES,
            dispatch,
            origin: Some(instance.origin()),
            entries,
        };
        if let Err(error) = instance.transcripts.append(&batch) {
            tracing::warn!(%dispatch, error = format!("{error:#}"), "part of a transcript could not be written; it can't be sent again");
        }
        if missed.is_some_and(|at| at.elapsed() < RETRY_PAUSE) {
            continue;
        }
        for attempt in 0..3 {
            match instance.broker.transcript(&batch).await {
                Ok(()) => break,
                Err(error) if attempt == 2 => {
                    missed = Some(Instant::now());
                    tracing::warn!(%dispatch, error = format!("{error:#}"), "part of a transcript is not published yet");
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
    instance.transcripts.end(dispatch, missed.is_some());
}

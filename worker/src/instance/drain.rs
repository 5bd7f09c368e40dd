//! The end of a worker's instance. Running sessions may go on for a while, then they are ended, pushed and
//! reported. Each step has a bound, and the log states their sum. A worker killed earlier leaves the rest to
//! its next instance.

use std::time::{Duration, Instant};

use ralph_shared::wire::EndReason;
use tokio::task::{JoinHandle, JoinSet};

use crate::instance::Instance;

/// How long a drain waits for reports to be settled after its sessions have ended.
const SETTLE: Duration = Duration::from_secs(10);
/// Longest time from the request to end a session until the drain gives up on it: its graces, its push, and a
/// reserve.
const END: Duration = Duration::from_secs(120);
/// How often the end request is repeated.
const END_AGAIN: Duration = Duration::from_secs(1);

/// Ends the sessions in the slots, then aborts `others`, then ends the push of an earlier instance's work.
pub async fn run(
    instance: &Instance,
    mut slots: JoinSet<()>,
    earlier: JoinHandle<()>,
    others: [JoinHandle<()>; 3],
) {
    instance.home.note_drain();
    let running = instance.running().len();
    let longest = longest(instance.config.drain, !earlier.is_finished());
    tracing::info!(
        running,
        at_most_seconds = longest.as_secs(),
        "draining: no more work is taken"
    );
    end_sessions(instance, &mut slots).await;
    others.iter().for_each(JoinHandle::abort);
    // Work not pushed by then is left to the next instance, as it was left to this one.
    let abort = earlier.abort_handle();
    if tokio::time::timeout(END, earlier).await.is_err() {
        abort.abort();
    }
    settle(instance).await;
}

/// Longest duration of a drain; longer while work of an earlier instance is being pushed.
fn longest(drain: Duration, is_pushing: bool) -> Duration {
    let earlier = if is_pushing { END } else { Duration::ZERO };
    drain + END + earlier + SETTLE
}

async fn end_sessions(instance: &Instance, slots: &mut JoinSet<()>) {
    let all = async |slots: &mut JoinSet<()>| while slots.join_next().await.is_some() {};
    if tokio::time::timeout(instance.config.drain, all(slots))
        .await
        .is_ok()
    {
        return;
    }
    instance.ending.cancel();
    // Repeated, because a claim under way may begin another session.
    let ended = async {
        loop {
            instance.end_all(EndReason::Drain);
            if tokio::time::timeout(END_AGAIN, all(slots)).await.is_ok() {
                return;
            }
        }
    };
    if tokio::time::timeout(END, ended).await.is_err() {
        tracing::error!("sessions did not end; their work stays in the data folder for the next instance");
        slots.abort_all();
    }
}

/// Waits for a bounded time until every report is settled. Unsettled ones stay in the spool.
async fn settle(instance: &Instance) {
    let until = Instant::now() + SETTLE;
    while !instance.spool.is_empty() && Instant::now() < until {
        instance.heartbeat_now.notify_one();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = instance.spool.dispatches().len();
    if left > 0 {
        tracing::warn!(
            left,
            "reports are not settled yet; they stay in the data folder for the next instance"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_drain_is_the_sum_of_its_steps() {
        let check = |drain, is_pushing, seconds| {
            assert_eq!(longest(Duration::from_secs(drain), is_pushing).as_secs(), seconds);
        };
        check(60, false, 190);
        check(0, false, 130);
        check(60, true, 310);
    }
}

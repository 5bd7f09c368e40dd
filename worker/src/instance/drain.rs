//! The end of a worker's instance: what runs may go on for a while, then it is ended, pushed and reported. Each step has its bound, and
//! whoever stops a worker is told what they come to: killed before, it leaves the rest to its next instance.

use std::time::{Duration, Instant};

use ralph_shared::wire::EndReason;
use tokio::task::{JoinHandle, JoinSet};

use crate::instance::Instance;

/// After its sessions have ended a drain waits so long for their reports to be settled.
const SETTLE: Duration = Duration::from_secs(10);
/// From the order to end a session to giving up on it: its own graces, the push, and more.
const END: Duration = Duration::from_secs(120);
/// How often what runs is told to end meanwhile.
const END_AGAIN: Duration = Duration::from_secs(1);

/// Ends what runs in the slots, `others` at once after that, and then what still pushes the work of an earlier instance.
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
    // What isn't pushed by then is left to the next instance, as it was to this one.
    let abort = earlier.abort_handle();
    if tokio::time::timeout(END, earlier).await.is_err() {
        abort.abort();
    }
    settle(instance).await;
}

/// How long a drain takes at most; longer while work of an earlier instance is still being pushed.
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
    // Again and again, for what a claim under way has begun meanwhile.
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

/// Waits, bounded, until every report is settled; what isn't stays in the spool.
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

//! Waits for a server that is away, with the dispatch still leased: nobody begins the task again without what it made, and
//! what was away for a while costs nobody an attempt.

use std::time::{Duration, Instant};

use ralph_shared::wire::EndReason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Longest wait for a server while a dispatch holds its slot.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// The same once the dispatch is to end: a drain has its own bound.
const LONGEST_ENDING: Duration = Duration::from_secs(60);
/// And once its worker's drain is over: `up` ends workers a minute after that, and what a session said must be kept before.
const LONGEST_DRAINED: Duration = Duration::from_secs(40);
/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// The remaining retries of one step.
#[derive(Debug)]
pub(in crate::dispatch) struct RetryBudget {
    began: Instant,
    pause: Duration,
}

impl RetryBudget {
    pub(in crate::dispatch) fn new() -> Self {
        Self {
            began: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before another try to begin; `false` when it took too long, or the dispatch is to end.
    pub(in crate::dispatch) async fn before_work(
        &mut self,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> bool {
        let Some(pause) = self.next_pause(LONGEST) else {
            return false;
        };
        tokio::select! {
            biased;
            _ = end.wait_for(Option::is_some) => false,
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// Waits before another try to keep what a session made, also of one that was told to end; `false` when it took too
    /// long, or nobody wants it any more.
    pub(in crate::dispatch) async fn after_work(
        &mut self,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> bool {
        let told = *end.borrow();
        let longest = match told {
            None => LONGEST,
            // Nobody waits for it, and this worker may not push for much longer.
            Some(EndReason::Fenced | EndReason::OutOfContact) => return false,
            Some(EndReason::Drain) => LONGEST_DRAINED,
            Some(_) => LONGEST_ENDING,
        };
        let Some(pause) = self.next_pause(longest) else {
            return false;
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = end.changed(), if told.is_none() => {}
        }
        true
    }

    fn next_pause(&mut self, longest: Duration) -> Option<Duration> {
        let left = longest.checked_sub(self.began.elapsed())?;
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        Some(pause).filter(|pause| !pause.is_zero())
    }
}

/// Completes when a worker whose drain is over has tried to push for as long as it may: what hangs is cut off then.
pub(in crate::dispatch) async fn time_is_up(ending: CancellationToken) {
    ending.cancelled().await;
    tokio::time::sleep(LONGEST_DRAINED).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let mut budget = RetryBudget::new();
        let pauses: Vec<_> = (0..7)
            .filter_map(|_| budget.next_pause(LONGEST))
            .map(|pause| pause.as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(budget.next_pause(Duration::ZERO), None);
    }

    #[tokio::test]
    async fn whoever_is_told_to_end_begins_nothing_and_keeps_little_longer() {
        let (sender, mut end) = watch::channel(Some(EndReason::Interrupted));
        assert!(!RetryBudget::new().before_work(&mut end).await);
        sender.send_replace(Some(EndReason::Fenced));
        assert!(!RetryBudget::new().after_work(&mut end).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_hangs_is_given_up_once_the_drain_is_over() {
        let ending = CancellationToken::new();
        let waits = tokio::time::timeout(LONGEST, time_is_up(ending.clone())).await;
        assert!(waits.is_err(), "the worker has time");
        ending.cancel();
        let began = tokio::time::Instant::now();
        time_is_up(ending).await;
        assert_eq!(began.elapsed().as_secs(), LONGEST_DRAINED.as_secs());
    }
}

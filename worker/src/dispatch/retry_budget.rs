//! Waits for an unreachable server while the dispatch is still leased. Nobody then starts the task again
//! without its work, and a short outage costs no attempt.

use std::time::{Duration, Instant};

use ralph_shared::wire::EndReason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Longest wait for a server while a dispatch holds its slot.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Longest wait once the dispatch must end: a drain has its own bound.
const LONGEST_ENDING: Duration = Duration::from_secs(60);
/// Longest wait after the worker's drain: `up` ends workers a minute after that, and a session's output must
/// be stored before.
const LONGEST_DRAINED: Duration = Duration::from_secs(40);
/// The first pause. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
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

    /// Waits before another try to begin. Returns `false` when it took too long or the dispatch must end.
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

    /// Waits before another try to push a session's work, even if the session must end. Returns `false` when
    /// it took too long or nobody wants the work any more.
    pub(in crate::dispatch) async fn after_work(
        &mut self,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> bool {
        let reason = *end.borrow();
        let longest = match reason {
            None => LONGEST,
            // Nobody waits for the work, and this worker may soon lose the right to push.
            Some(EndReason::Fenced | EndReason::OutOfContact) => return false,
            Some(EndReason::Drain) => LONGEST_DRAINED,
            Some(_) => LONGEST_ENDING,
        };
        let Some(pause) = self.next_pause(longest) else {
            return false;
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = end.changed(), if reason.is_none() => {}
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

/// Completes when a drained worker has used all its time for pushes. A push that hangs is then cut off.
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
    async fn an_ended_dispatch_does_not_begin_and_a_fenced_one_does_not_push() {
        let (sender, mut end) = watch::channel(Some(EndReason::Interrupted));
        assert!(!RetryBudget::new().before_work(&mut end).await);
        sender.send_replace(Some(EndReason::Fenced));
        assert!(!RetryBudget::new().after_work(&mut end).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_that_hangs_is_cut_off_after_the_drain() {
        let ending = CancellationToken::new();
        let waits = tokio::time::timeout(LONGEST, time_is_up(ending.clone())).await;
        assert!(waits.is_err(), "the worker has time");
        ending.cancel();
        let began = tokio::time::Instant::now();
        time_is_up(ending).await;
        assert_eq!(began.elapsed().as_secs(), LONGEST_DRAINED.as_secs());
    }
}

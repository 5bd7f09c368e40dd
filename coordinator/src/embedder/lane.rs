//! Pauses a failing model, twice as long each time.

use std::time::{Duration, Instant};

/// Pause after a first failure, doubled by each up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Doublings after which nothing changes.
const MOST_DOUBLINGS: u32 = 10;

/// Recent failures of the model.
#[derive(Debug, Default)]
pub(super) struct Lane {
    failures: u32,
    paused_until: Option<Instant>,
    /// The last error, unless the model has answered since.
    pub(super) trouble: Option<String>,
}

impl Lane {
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| until <= now)
    }

    /// Returns whether the model had failed before.
    pub(super) fn answered(&mut self) -> bool {
        let had_failed = self.trouble.is_some();
        *self = Self::default();
        had_failed
    }

    /// Returns whether this is the first failure in a row. `wanted` is the pause that the model asked for.
    pub(super) fn failed(&mut self, now: Instant, why: String, wanted: Option<Duration>) -> bool {
        let doubled = FIRST_PAUSE * 2_u32.pow(self.failures.min(MOST_DOUBLINGS));
        let pause = doubled.max(wanted.unwrap_or_default()).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(now + pause);
        self.trouble.replace(why).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_end_with_an_answer() {
        let now = Instant::now();
        let mut lane = Lane::default();
        let mut closed_for = |wanted: Option<u64>| {
            lane.failed(now, "away".to_owned(), wanted.map(Duration::from_secs));
            (0..1_000)
                .find(|s| lane.is_open(now + Duration::from_secs(*s)))
                .unwrap_or(0)
        };
        assert_eq!(
            [closed_for(None), closed_for(None), closed_for(Some(20))],
            [2, 4, 20]
        );
        assert_eq!(
            closed_for(Some(100_000)),
            300,
            "no answer can pause it for longer"
        );
        assert_eq!([0; 60].map(|_| closed_for(None)).last(), Some(&300));
        assert!(lane.answered());
        assert!(lane.is_open(now) && !lane.answered());
    }
}

//! Detects essential loops that are stuck. With a healthy database and broker a process may still be stuck,
//! behind a lock for example, or because the broker lost the streams.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A loop with a period of a second is stuck after this.
const LATE: Duration = Duration::from_secs(30);

/// The last time that each loop worked.
#[derive(Debug)]
pub struct Pulse {
    late: Duration,
    beats: Mutex<BTreeMap<&'static str, Instant>>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new(LATE)
    }
}

impl Pulse {
    /// A pulse in which a loop counts as stuck after this.
    pub fn new(late: Duration) -> Self {
        Self {
            late,
            beats: Mutex::default(),
        }
    }

    /// Registers a loop at its start or restart, which alone is no work.
    pub(super) fn begin(&self, name: &'static str) {
        let mut beats = self.beats.lock();
        beats.entry(name).or_insert_with(Instant::now);
    }

    /// Records that this loop did its work.
    pub(super) fn record(&self, name: &'static str) {
        let mut beats = self.beats.lock();
        beats.insert(name, Instant::now());
    }

    /// The loop that is stuck longest at `now`, if any, and for how long. Unregistered loops do not count.
    pub fn longest_stuck(&self, now: Instant) -> Option<(&'static str, Duration)> {
        let beats = self.beats.lock();
        let (name, last) = beats.iter().min_by_key(|(_, last)| **last)?;
        let since = now.saturating_duration_since(*last);
        (since > self.late).then_some((*name, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_that_is_stuck_longest_is_named() {
        let pulse = Pulse::new(Duration::from_secs(30));
        let began = Instant::now();
        let after = |seconds| {
            let now = Instant::now() + Duration::from_secs(seconds);
            pulse.longest_stuck(now).map(|(name, _)| name)
        };
        assert_eq!(after(1_000), None);
        pulse.begin("rescue");
        pulse.begin("tickets");
        assert_eq!(after(29), None);
        assert_eq!(after(31), Some("rescue"));
        pulse.begin("rescue");
        assert_eq!(after(31), Some("rescue"));
        pulse.record("rescue");
        assert_eq!(after(31), Some("tickets"));
        assert!(pulse.longest_stuck(began).is_none());
    }
}

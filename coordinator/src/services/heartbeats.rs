//! Whether the loops move that everything waits for: a process whose database and broker answer may still stand, behind a lock, say, or
//! because the broker keeps no streams any more.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A loop that works once a second and hasn't for so long stands.
const LATE: Duration = Duration::from_secs(30);

/// When each loop last did its work.
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
    /// One for which a loop stands that hasn't done its work for this long.
    pub fn new(late: Duration) -> Self {
        Self {
            late,
            beats: Mutex::default(),
        }
    }

    /// This loop begins, or begins again, which alone is no work.
    pub(super) fn begin(&self, name: &'static str) {
        let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.entry(name).or_insert_with(Instant::now);
    }

    /// This loop did its work.
    pub(super) fn beat(&self, name: &'static str) {
        let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.insert(name, Instant::now());
    }

    /// The loop that stands longest at `now`, if one does, and for how long it hasn't worked. Loops that weren't begun here count not.
    pub fn standing(&self, now: Instant) -> Option<(&'static str, Duration)> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, last) = beats.iter().min_by_key(|(_, last)| **last)?;
        let since = now.saturating_duration_since(*last);
        (since > self.late).then_some((*name, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_that_stands_longest_is_named() {
        let pulse = Pulse::new(Duration::from_secs(30));
        let began = Instant::now();
        let after = |seconds| {
            let now = Instant::now() + Duration::from_secs(seconds);
            pulse.standing(now).map(|(name, _)| name)
        };
        assert_eq!(after(1_000), None);
        pulse.begin("rescue");
        pulse.begin("tickets");
        assert_eq!(after(29), None);
        assert_eq!(after(31), Some("rescue"));
        pulse.begin("rescue");
        assert_eq!(after(31), Some("rescue"));
        pulse.beat("rescue");
        assert_eq!(after(31), Some("tickets"));
        assert!(pulse.standing(began).is_none());
    }
}

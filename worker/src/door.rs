//! An agent that fails at the door would take every task of its pool and fail it within seconds. So after such a failure
//! this worker claims nothing for a while, longer each time, until a session gets past the door (SPEC 7.3).

use std::time::{Duration, Instant};

use ralph_shared::wire::Door;

/// Pause after the first failure, doubled with each further one.
const FIRST: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Whether this worker's agents get past the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DoorKeeper {
    failures: u32,
    until: Option<Instant>,
}

impl DoorKeeper {
    /// Notes how a session began: `None` got past the door. Returns the pause, if there is one now.
    pub fn note(&mut self, door: Option<Door>, now: Instant) -> Option<Duration> {
        if door.is_none() {
            *self = Self::default();
            return None;
        }
        // Sessions that began together fail together: that is one failure.
        if self.until.is_some_and(|until| now < until) {
            return None;
        }
        let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures += 1;
        self.until = Some(now + pause);
        Some(pause)
    }

    /// How long nothing is claimed yet.
    pub fn closed_for(&self, now: Instant) -> Option<Duration> {
        self.until
            .map(|until| until.saturating_duration_since(now))
            .filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_session_gets_past_the_door() {
        let mut door = DoorKeeper::default();
        let mut now = Instant::now();
        assert_eq!(door.closed_for(now), None);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let pause = door.note(Some(Door::NotFound), now).unwrap();
            assert_eq!(door.note(Some(Door::NotFound), now), None, "together is once");
            assert_eq!(door.closed_for(now), Some(pause));
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!(door.closed_for(now), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(door.note(None, now), None);
        assert_eq!(door.note(Some(Door::RateLimit), now), Some(FIRST));
    }
}

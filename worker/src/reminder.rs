//! A problem is logged at once, and again from time to time while it lasts. A silent log would look like that
//! of a worker without work.

use std::time::{Duration, Instant};

/// A lasting problem is logged again after this time.
const AGAIN: Duration = Duration::from_secs(60);

/// The last logged problem, and when it was logged.
#[derive(Debug, Default)]
pub struct Reminder {
    logged: Option<(String, Instant)>,
}

impl Reminder {
    /// Whether to log a problem now: it is new, or was logged a while ago.
    pub fn is_due(&mut self, what: &str, now: Instant) -> bool {
        let is_due = match &self.logged {
            Some((logged, at)) => logged != what || now.duration_since(*at) >= AGAIN,
            None => true,
        };
        if is_due {
            self.logged = Some((what.to_owned(), now));
        }
        is_due
    }

    /// Ends the problem. Returns whether any had been logged.
    pub fn over(&mut self) -> bool {
        self.logged.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_problem_is_due_once_a_minute_and_a_new_one_at_once() {
        let mut reminder = Reminder::default();
        let began = Instant::now();
        let mut at = |what, seconds| reminder.is_due(what, began + Duration::from_secs(seconds));
        let due = [
            at("away", 0),
            at("away", 1),
            at("away", 59),
            at("away", 60),
            at("away", 61),
            at("silent", 62),
            at("away", 63),
        ];
        assert_eq!(due, [true, false, false, true, false, true, true]);
        assert!(reminder.over() && !reminder.over());
        assert!(reminder.is_due("away", began));
    }
}

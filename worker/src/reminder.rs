//! What is wrong is said at once, and again from time to time while it lasts: a silent log looks like that of a worker whose
//! work has not come yet.

use std::time::{Duration, Instant};

/// After this, what still holds is said again.
const AGAIN: Duration = Duration::from_secs(60);

/// What was said last, and when.
#[derive(Debug, Default)]
pub struct Reminder {
    said: Option<(String, Instant)>,
}

impl Reminder {
    /// Whether this is to be said now: it is new, or was said a while ago.
    pub fn is_due(&mut self, what: &str, now: Instant) -> bool {
        let is_due = match &self.said {
            Some((said, at)) => said != what || now.duration_since(*at) >= AGAIN,
            None => true,
        };
        if is_due {
            self.said = Some((what.to_owned(), now));
        }
        is_due
    }

    /// It is over. Whether anything had been said.
    pub fn over(&mut self) -> bool {
        self.said.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_said_once_a_minute_and_what_is_new_at_once() {
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

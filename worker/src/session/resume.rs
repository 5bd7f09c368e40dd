//! Whether an agent that ended in the middle of its turn is started again: a decision.
//!
//! An attempt whose agent crashed would else begin anew, without what the agent had read and thought, and pay for it
//! again. So an agent that can resume sessions gets one second process: it takes up the session and is told that it was
//! interrupted. The session's limits hold for both processes together.

use std::time::Duration;

use ralph_shared::wire::{Ended, SessionLimits};

use super::introduction::Capabilities;
use super::record::Record;
use super::spec::{Resume, SessionSpec};

/// What the first process took of the session's limits. Tool calls are counted by the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// How long it ran.
    pub time: Duration,
    /// All that it sent.
    pub output_bytes: u64,
}

/// The second process of a session whose first ended like this, if there is to be one.
pub fn second(spec: &SessionSpec, ended: &Ended, record: &Record, spent: Spent) -> Option<SessionSpec> {
    let prompt = spec.after_exit.clone()?;
    let Capabilities { load, resume, .. } = record.introduction.capabilities;
    let crashed = matches!(ended, Ended::AgentExited { .. });
    if !crashed || !(load || resume) {
        return None;
    }
    Some(SessionSpec {
        resume: Some(Resume {
            session: record.session()?.to_owned(),
            or_new: false,
        }),
        prompt,
        after_exit: None,
        limits: left(spec.limits, spent)?,
        ..spec.clone()
    })
}

/// What is left of the limits; `None` when that is nothing.
fn left(limits: SessionLimits, spent: Spent) -> Option<SessionLimits> {
    let spent_ms = u64::try_from(spent.time.as_millis()).ok()?;
    let left = SessionLimits {
        session_ms: limits.session_ms.saturating_sub(spent_ms),
        output_bytes: limits.output_bytes.saturating_sub(spent.output_bytes),
        ..limits
    };
    (left.session_ms > 0 && left.output_bytes > 0).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_both_processes_together() {
        let limits = SessionLimits {
            session_ms: 1_000,
            output_bytes: 100,
            ..SessionLimits::default()
        };
        let after = |ms, output_bytes| {
            let spent = Spent {
                time: Duration::from_millis(ms),
                output_bytes,
            };
            left(limits, spent).map(|left| (left.session_ms, left.output_bytes))
        };
        assert_eq!(after(400, 30), Some((600, 70)));
        assert_eq!(after(1_000, 30), None);
        assert_eq!(after(400, 101), None);
    }
}

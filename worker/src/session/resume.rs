//! Decides whether to restart an agent that exited in the middle of its turn.
//!
//! Without a restart, an attempt whose agent crashed would begin anew, and pay again for all that the agent
//! had read and thought. An agent that can resume sessions therefore gets one second process. It resumes the
//! session with a prompt about the interruption. The session's limits apply to both processes together.

use std::time::Duration;

use ralph_shared::wire::{Ended, SessionLimit, SessionLimits, Unavailable};

use super::spec::{Resume, SessionSpec};
use crate::session::protocol::introduction::Capabilities;
use crate::session::transcript::record::Record;

/// The first process's part of the session's limits. The record counts tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub time: Duration,
    pub output_bytes: u64,
}

/// The second process of a session whose first one ended like this, if there should be one.
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
        limits: remaining_limits(spec.limits, spent)?,
        ..spec.clone()
    })
}

/// Whether the second process's end is the session's end. If it could not resume the session, the first
/// process's end counts. Exceptions are an end from outside, and a cause other than the agent: the provider
/// or a full disk.
pub fn is_end(later: &Ended, resumed: bool) -> bool {
    let from_outside = match later {
        Ended::Told { .. } => true,
        Ended::Unavailable { door, .. } => matches!(
            door,
            Unavailable::RateLimit | Unavailable::Quota | Unavailable::Overload | Unavailable::Authentication
        ),
        Ended::Limit { limit } => matches!(
            limit,
            SessionLimit::Disk | SessionLimit::Cost | SessionLimit::Tokens
        ),
        _ => false,
    };
    resumed || from_outside
}

/// The remaining limits. `None` when one is used up.
fn remaining_limits(limits: SessionLimits, spent: Spent) -> Option<SessionLimits> {
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
    use ralph_shared::wire::EndReason;

    use super::*;

    #[test]
    fn a_second_process_counts_if_it_resumed_or_was_stopped_from_outside() {
        let door = |door| Ended::Unavailable {
            door,
            message: String::new(),
        };
        let limit = |limit| Ended::Limit { limit };
        let rows = [
            (
                Ended::Told {
                    reason: EndReason::Fenced,
                },
                true,
            ),
            (door(Unavailable::RateLimit), true),
            (door(Unavailable::Authentication), true),
            (door(Unavailable::ExitsAtOnce), false),
            (door(Unavailable::Silent), false),
            (limit(SessionLimit::Disk), true),
            (limit(SessionLimit::Cost), true),
            (limit(SessionLimit::Session), false),
            (
                Ended::AgentExited {
                    code: Some(1),
                    signal: None,
                },
                false,
            ),
        ];
        for (later, expected) in rows {
            assert_eq!(is_end(&later, false), expected, "{later:?}");
            assert!(is_end(&later, true), "{later:?}");
        }
    }

    #[test]
    fn both_processes_share_the_limits() {
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
            remaining_limits(limits, spent).map(|left| (left.session_ms, left.output_bytes))
        };
        assert_eq!(after(400, 30), Some((600, 70)));
        assert_eq!(after(1_000, 30), None);
        assert_eq!(after(400, 101), None);
    }
}

//! When a session must end (SPEC 3.4): a decision on facts and the time.

pub(crate) mod allowance;
pub(crate) mod disk;
pub(crate) mod price;
pub(crate) mod retry_after;
pub(crate) mod start_time;
pub(crate) mod usage;

use std::time::{Duration, Instant};

use ralph_shared::wire::{SessionLimit, SessionLimits};

/// Longest replay of a loaded session. It is read and forgotten. Bytes.
pub const REPLAY_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// How many times the longest silence an agent may send only chatter (usage, titles, echoes) before it counts
/// as stalled.
pub const STALL_FACTOR: u32 = 3;

/// Longest time for which an agent may report its provider's refusals without progress. Most agents give up
/// sooner.
const LONGEST_REFUSALS: Duration = Duration::from_secs(75);

/// Time for which an agent may report its provider's refusals without progress: an eighth of the longest
/// silence (75 s with the default of ten minutes), at most `LONGEST_REFUSALS`.
pub fn refusal_timeout(limits: &SessionLimits) -> Duration {
    LONGEST_REFUSALS.min(Duration::from_millis(limits.idle_ms) / 8)
}

#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub started: Instant,
    /// Time of the agent's last message.
    pub heard: Instant,
    /// Time of its last progress: text, a thought, a change of a tool call, a plan, a request.
    pub progressed: Instant,
    /// The agent's total output. Bytes.
    pub output_bytes: u64,
    pub tool_calls: u32,
    pub disk_filled: bool,
    /// The exhausted limit of its share of the run, if any.
    pub used_up: Option<SessionLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Continue, and ask again at this time at the latest.
    Go {
        /// When the next limit is reached if nothing happens.
        until: Instant,
    },
    End(SessionLimit),
}

/// Whether a session may go on. A limit of zero tool calls or bytes is a limit too.
pub fn judge(limits: &SessionLimits, facts: &Facts, now: Instant) -> Verdict {
    let session_end = facts.started + Duration::from_millis(limits.session_ms);
    let idle = Duration::from_millis(limits.idle_ms);
    let idle_end = facts.heard + idle;
    let stall_end = facts.progressed + idle * STALL_FACTOR;
    if facts.output_bytes > limits.output_bytes {
        return Verdict::End(SessionLimit::Output);
    }
    if facts.tool_calls > limits.tool_calls {
        return Verdict::End(SessionLimit::ToolCalls);
    }
    if let Some(limit) = facts.used_up {
        return Verdict::End(limit);
    }
    if facts.disk_filled {
        return Verdict::End(SessionLimit::Disk);
    }
    if now >= session_end {
        return Verdict::End(SessionLimit::Session);
    }
    if now >= idle_end {
        return Verdict::End(SessionLimit::Idle);
    }
    if now >= stall_end {
        return Verdict::End(SessionLimit::Stall);
    }
    Verdict::Go {
        until: session_end.min(idle_end).min(stall_end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_ends_the_session_for_its_own_reason() {
        let limits = SessionLimits {
            session_ms: 1000,
            idle_ms: 100,
            output_bytes: 10,
            tool_calls: 2,
            grace_ms: 1,
        };
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let check = |heard_ms, output_bytes, tool_calls, now_ms, expected| {
            let facts = Facts {
                started,
                heard: at(heard_ms),
                progressed: at(heard_ms.min(640)),
                output_bytes,
                tool_calls,
                disk_filled: false,
                used_up: None,
            };
            let verdict = judge(&limits, &facts, at(now_ms));
            assert_eq!(
                verdict, expected,
                "{heard_ms} {output_bytes} {tool_calls} {now_ms}"
            );
        };
        let end = Verdict::End;
        check(0, 0, 0, 0, Verdict::Go { until: at(100) });
        check(50, 10, 2, 149, Verdict::Go { until: at(150) });
        check(839, 0, 0, 850, Verdict::Go { until: at(939) });
        check(860, 0, 0, 939, Verdict::Go { until: at(940) });
        check(860, 0, 0, 940, end(SessionLimit::Stall));
        check(0, 0, 0, 100, end(SessionLimit::Idle));
        check(999, 0, 0, 1000, end(SessionLimit::Session));
        check(0, 0, 0, 1000, end(SessionLimit::Session));
        check(0, 11, 0, 1, end(SessionLimit::Output));
        check(0, 0, 3, 1, end(SessionLimit::ToolCalls));
        let facts = Facts {
            started,
            heard: started,
            progressed: started,
            output_bytes: 0,
            tool_calls: 0,
            disk_filled: true,
            used_up: None,
        };
        assert_eq!(judge(&limits, &facts, started), end(SessionLimit::Disk));
        let facts = Facts {
            used_up: Some(SessionLimit::Cost),
            ..facts
        };
        assert_eq!(judge(&limits, &facts, started), end(SessionLimit::Cost));
    }
}

//! Circuit breakers for agents that fail to start. Such an agent would take every task that names it and fail
//! it within seconds. After a failed start this worker therefore stops offering the agent for a while, longer
//! each time, until one of its sessions starts. Other agents are unaffected (SPEC 7.3).
//!
//! Problems of an account (rate, quota, overload) concern every worker that uses it. Once the coordinator has
//! the report, it holds back the account's tasks, with growing pauses. Until then this worker pauses the
//! account itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ralph_shared::wire::{ClosedAgent, Concerns, Ended, SessionReport, TranscriptUpdate, Unavailable};

/// Pause after the first failure. It doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Whether a session's agent started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartResult {
    /// The agent's name in the worker's configuration.
    pub agent: String,
    pub account: String,
    /// The kind of failure and its message. `None` if the agent started.
    pub failed: Option<(Unavailable, String)>,
    /// How long the session held a slot.
    pub took: Duration,
}

impl StartResult {
    /// The result of a session's start. `None` if the agent may not have been started.
    pub fn of(agent: &str, account: &str, session: &SessionReport, took: Duration) -> Option<Self> {
        let failed = match &session.ended {
            Ended::Unavailable { door, message } => {
                let parts = [Some(message.as_str()), session.unread_output.as_deref()];
                let parts: Vec<&str> = parts.into_iter().flatten().collect();
                Some((*door, parts.join("; ")))
            }
            Ended::Turn { .. } | Ended::Limit { .. } | Ended::AgentExited { .. } | Ended::Protocol { .. } => {
                None
            }
            Ended::Told { .. } | Ended::Workspace { .. } => return None,
        };
        Some(Self {
            agent: agent.to_owned(),
            account: account.to_owned(),
            failed,
            took,
        })
    }
}

/// Longest text that may be only a warning of the agent's own, sent before its provider answered. Bytes.
const WARNING_BYTES: usize = 500;

/// Looks for the first update that only a model can have caused: it proves that the agent started.
#[derive(Debug, Default)]
pub struct FirstAnswer {
    text_bytes: usize,
    found: bool,
}

impl FirstAnswer {
    pub fn is_in(&mut self, update: &TranscriptUpdate) -> bool {
        let answers = match update {
            TranscriptUpdate::Thought { .. }
            | TranscriptUpdate::Tool { .. }
            | TranscriptUpdate::Plan { .. } => true,
            TranscriptUpdate::Text { text } => {
                self.text_bytes += text.len();
                self.text_bytes > WARNING_BYTES
            }
            _ => false,
        };
        answers && !std::mem::replace(&mut self.found, true)
    }
}

/// A circuit breaker for each of this worker's agents and accounts.
#[derive(Debug, Clone, Default)]
pub struct AgentBreakers {
    agents: BTreeMap<String, AgentPause>,
    accounts: BTreeMap<String, Instant>,
}

#[derive(Debug, Clone)]
struct AgentPause {
    door: Unavailable,
    reason: String,
    failures: u32,
    until: Instant,
    /// Length of the current pause.
    pause: Duration,
}

impl AgentBreakers {
    /// Records the result of a start. Returns the pause that begins now, if one does.
    pub fn note(&mut self, start: &StartResult, now: Instant) -> Option<Duration> {
        let Some((door, message)) = &start.failed else {
            self.agents.remove(&start.agent);
            return None;
        };
        if door.concerns() == Concerns::Account {
            let pauses = self
                .accounts
                .get(&start.account)
                .is_some_and(|until| now < *until);
            self.accounts.insert(start.account.clone(), now + FIRST);
            return (!pauses).then_some(FIRST);
        }
        let before = self.agents.get(&start.agent);
        // Sessions that began together fail together. They count as one failure.
        if before.is_some_and(|closed| now < closed.until) {
            return None;
        }
        let failures = before.map_or(0, |closed| closed.failures);
        let pause = FIRST.saturating_mul(1 << failures.min(16)).min(LONGEST);
        // An agent that fails slowly would otherwise take most of its slots' time.
        let pause = pause.max(start.took);
        let end = message.floor_char_boundary(ClosedAgent::REASON_BYTES);
        let closed = AgentPause {
            door: *door,
            reason: message[..end].to_owned(),
            failures: failures + 1,
            until: now + pause,
            pause,
        };
        self.agents.insert(start.agent.clone(), closed);
        Some(pause)
    }

    /// Whether an agent may be started.
    pub fn is_open(&self, agent: &str, account: &str, now: Instant) -> bool {
        let waits = |until: Option<Instant>| until.is_some_and(|until| now < until);
        !waits(self.agents.get(agent).map(|closed| closed.until))
            && !waits(self.accounts.get(account).copied())
    }

    /// Whether the agent's last start failed. Only one session at a time tries it.
    pub fn is_on_trial(&self, agent: &str) -> bool {
        self.agents.contains_key(agent)
    }

    /// Whether an agent whose last start failed may be tried again. With `overdue`: whether one has waited
    /// another pause while other agents went first.
    pub fn has_trials(&self, now: Instant, overdue: bool) -> bool {
        let due = |closed: &AgentPause| closed.until + if overdue { closed.pause } else { Duration::ZERO };
        self.agents.values().any(|closed| due(closed) <= now)
    }

    /// Time until the first unavailable agent or account may be tried again.
    pub fn next_retry_in(&self, now: Instant) -> Option<Duration> {
        let agents = self.agents.values().map(|closed| closed.until);
        let times = agents.chain(self.accounts.values().copied());
        times
            .filter(|until| now < *until)
            .min()
            .map(|until| until.duration_since(now))
    }

    /// The agents that are not started now, and why.
    pub fn closed(&self, now: Instant) -> Vec<ClosedAgent> {
        self.agents
            .iter()
            .filter(|(_, closed)| now < closed.until)
            .map(|(agent, closed)| ClosedAgent {
                agent: agent.clone(),
                door: closed.door,
                reason: closed.reason.clone(),
                failures: closed.failures,
                left_ms: u64::try_from(closed.until.duration_since(now).as_millis()).unwrap_or(u64::MAX),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(agent: &str, account: &str, failed: Option<Unavailable>) -> StartResult {
        StartResult {
            agent: agent.to_owned(),
            account: account.to_owned(),
            failed: failed.map(|door| (door, "no".to_owned())),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn pauses_of_an_agent_grow_until_it_starts() {
        let mut breakers = AgentBreakers::default();
        let mut now = Instant::now();
        let failed = result("a", "x", Some(Unavailable::NotFound));
        let mut pauses = Vec::new();
        for n in 1..=10 {
            let pause = breakers.note(&failed, now).unwrap();
            assert_eq!(breakers.note(&failed, now), None, "together is once");
            assert!(!breakers.is_open("a", "x", now));
            assert!(breakers.is_open("b", "x", now), "another agent");
            assert_eq!(breakers.next_retry_in(now), Some(pause));
            let closed = breakers.closed(now);
            assert_eq!((closed.len(), closed[0].failures), (1, n));
            pauses.push(pause.as_secs());
            now += pause;
            assert!(breakers.is_open("a", "x", now));
            assert_eq!(
                (breakers.next_retry_in(now), breakers.closed(now).len()),
                (None, 0)
            );
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(breakers.note(&result("b", "x", None), now), None);
        assert_eq!(
            breakers.note(&failed, now),
            Some(LONGEST),
            "another agent's success changes nothing"
        );
        now += LONGEST;
        breakers.note(&result("a", "x", None), now);
        assert_eq!(breakers.note(&failed, now), Some(FIRST));
    }

    #[test]
    fn a_slow_failure_pauses_the_agent_as_long_as_it_took() {
        let mut breakers = AgentBreakers::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut slow = result("a", "x", Some(Unavailable::Silent));
        slow.took = Duration::from_secs(30);
        assert!(!breakers.is_on_trial("a"));
        assert_eq!(breakers.note(&slow, start), Some(Duration::from_secs(30)));
        let check = |seconds, is_open, has_trials, overdue| {
            let now = at(seconds);
            let state = (
                breakers.is_open("a", "x", now),
                breakers.has_trials(now, false),
                breakers.has_trials(now, true),
            );
            assert_eq!(state, (is_open, has_trials, overdue), "{seconds}");
            assert!(breakers.is_on_trial("a") && !breakers.is_on_trial("b"));
        };
        check(29, false, false, false);
        check(30, true, true, false);
        check(60, true, true, true);
        breakers.note(&result("a", "x", None), at(60));
        assert!(!breakers.is_on_trial("a") && !breakers.has_trials(at(60), true));
    }

    #[test]
    fn an_accounts_failure_briefly_pauses_all_its_agents() {
        let mut breakers = AgentBreakers::default();
        let now = Instant::now();
        assert_eq!(
            breakers.note(&result("a", "x", Some(Unavailable::RateLimit)), now),
            Some(FIRST)
        );
        assert!(!breakers.is_open("b", "x", now) && breakers.is_open("b", "y", now));
        assert_eq!(breakers.closed(now), [], "the coordinator reports accounts");
        assert_eq!(breakers.next_retry_in(now), Some(FIRST));
        let now = now + FIRST;
        assert!(breakers.is_open("a", "x", now));
        assert_eq!(
            breakers.note(&result("a", "x", Some(Unavailable::Overload)), now),
            Some(FIRST)
        );
    }

    #[test]
    fn a_tool_a_thought_or_a_long_text_proves_that_a_model_answered() {
        let text = |bytes| TranscriptUpdate::Text {
            text: "x".repeat(bytes),
        };
        let thought = TranscriptUpdate::Thought {
            text: "so".to_owned(),
        };
        let note = TranscriptUpdate::Note {
            text: "x".repeat(WARNING_BYTES + 1),
        };
        let found = |updates: &[&TranscriptUpdate]| {
            let mut first = FirstAnswer::default();
            updates.iter().position(|update| first.is_in(update))
        };
        assert_eq!(found(&[&note, &text(WARNING_BYTES), &thought]), Some(2));
        assert_eq!(found(&[&text(WARNING_BYTES), &text(1)]), Some(1));
        assert_eq!(found(&[&text(WARNING_BYTES)]), None);
        let mut first = FirstAnswer::default();
        assert!(first.is_in(&thought) && !first.is_in(&thought), "reported once");
    }

    #[test]
    fn only_a_started_session_tells_whether_its_agent_started() {
        let of = |ended| StartResult::of("a", "x", &SessionReport::new(ended), Duration::ZERO);
        let turn = Ended::Turn {
            stop_reason: "end_turn".to_owned(),
        };
        assert_eq!(of(turn), Some(result("a", "x", None)));
        let workspace = Ended::Workspace {
            message: String::new(),
            away: false,
        };
        assert_eq!(of(workspace), None);
    }
}

//! Availability of agents and accounts, and the duration of pauses (SPEC 7.3).
//!
//! A worker marks an agent as unavailable that is missing, starts no session or wants a login, and no longer
//! offers it. A problem of an account (rate, quota, overload) makes the account unavailable on every worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{AgentRule, DEFAULT_AGENT, Unavailable, agents_for};
use time::OffsetDateTime;

use crate::failure::Pauses;

/// Longest pause that a provider may request: the provider may be wrong, and an account over its quota may
/// get a new one earlier.
pub const LONGEST_PROVIDER_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);
/// Most added jitter of a provider's pause: a tenth of it, up to this.
pub const MOST_JITTER: Duration = Duration::from_secs(30);
/// An account that answered this many sessions at once is open.
pub const WIDEST: i32 = 16;

/// How long a session that tries an account keeps others waiting without an answer of its model: it may have
/// died with a live lease, prepare a large repository, or run on a worker that does not report answers.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The agent of tasks that need none.
pub const NO_AGENT: &str = "";

/// An account's failures in a row, and the end of its pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    pub failures: i32,
    /// End of the pause: no claim uses the account before.
    pub until: OffsetDateTime,
}

/// The pause after another failure; `None` during a pause: sessions that started together fail together, as
/// one failure. It lasts as long as the provider `asked`, plus `jitter` (0 to 1), else by `pauses`.
pub fn after_failure(
    before: Option<Pause>,
    pauses: Pauses,
    asked: Option<Duration>,
    jitter: f64,
    now: OffsetDateTime,
) -> Option<Pause> {
    if before.is_some_and(|pause| now < pause.until) {
        return None;
    }
    let failures = before.map_or(0, |pause| pause.failures);
    let doublings = u32::try_from(failures).unwrap_or(0).min(20);
    let pause = match asked.map(|asked| asked.min(LONGEST_PROVIDER_PAUSE)) {
        Some(asked) => asked + (asked / 10).min(MOST_JITTER).mul_f64(jitter.clamp(0.0, 1.0)),
        None => pauses.first.saturating_mul(1 << doublings).min(pauses.longest),
    };
    Some(Pause {
        failures: failures.saturating_add(1),
        until: now + pause,
    })
}

/// The session that tries an account after its pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// When it was claimed.
    pub since: OffsetDateTime,
    /// Whether its report is still to come, and its lease holds.
    pub live: bool,
}

/// The state of an account whose last session failed; an account without a row is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Nobody may use it yet.
    Paused,
    /// The allowed number of sessions tries it; the others wait for their models' answers.
    HalfOpen,
    /// This many further sessions may use it.
    Free(usize),
}

/// Decides the state. After a pause, all waiting sessions would meet the same limit at once. So one goes
/// first, then as many as the account's `width`, of which `live` run.
pub fn breaker_state(
    until: OffsetDateTime,
    probe: Option<Probe>,
    (width, live): (i32, i64),
    now: OffsetDateTime,
) -> BreakerState {
    let tries = |probe: Probe| probe.live && now < probe.since + PROBE_TIMEOUT;
    if now < until {
        return BreakerState::Paused;
    }
    let room = match width {
        ..=1 => i64::from(!probe.is_some_and(tries)),
        _ => i64::from(width) - live,
    };
    match usize::try_from(room) {
        Ok(room @ 1..) => BreakerState::Free(room),
        _ => BreakerState::HalfOpen,
    }
}

/// A worker that takes work, with its agents.
#[derive(Debug, Clone, Default)]
pub struct ActiveWorker {
    pub worker: String,
    pub pools: Vec<String>,
    /// Its agents, each with its account.
    pub agents: BTreeMap<String, String>,
    /// Its rules for tasks without an agent.
    pub rules: Vec<AgentRule>,
    /// Agents that it cannot start now, or whose account is unavailable.
    pub closed: BTreeMap<String, Unavailability>,
}

/// Why an agent is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailability {
    /// The account, if that is unavailable.
    pub account: Option<String>,
    /// What failed.
    pub door: Unavailable,
    pub reason: String,
    pub failures: u32,
    /// Time of the next try.
    pub until: OffsetDateTime,
    /// Whether a session tries it now.
    pub tried: bool,
    /// Number of sessions that may use it at once; 1 until it answers again.
    pub width: u32,
}

/// Why nobody can start a task now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// No worker serves the pool.
    Worker,
    /// No worker of the pool has the agent; these are the ones that they have.
    Agent(BTreeSet<String>),
    /// The agent is unavailable on every worker of the pool that has it; this one returns first.
    Unavailable {
        worker: String,
        agent: String,
        closed: Unavailability,
    },
}

/// What a session of this kind lacks in `pool` when its task names this agent; [`DEFAULT_AGENT`] when it
/// names none. `None` when somebody can start it.
pub fn lack(pool: &str, agent: &str, kind: SessionKind, sites: &[ActiveWorker]) -> Option<Lack> {
    let here: Vec<&ActiveWorker> = sites
        .iter()
        .filter(|site| site.pools.iter().any(|one| one == pool))
        .collect();
    if here.is_empty() {
        return Some(Lack::Worker);
    }
    if agent == NO_AGENT {
        return None;
    }
    let mut first: Option<(&str, &str, &Unavailability)> = None;
    let mut is_there = false;
    for site in &here {
        let wanted = match agent {
            DEFAULT_AGENT => agents_for(&site.rules, kind, pool),
            named => BTreeSet::from([named]),
        };
        for agent in wanted
            .into_iter()
            .filter(|agent| site.agents.contains_key(*agent))
        {
            is_there = true;
            let closed = site.closed.get(agent)?;
            if first.is_none_or(|(.., other)| closed.until < other.until) {
                first = Some((&site.worker, agent, closed));
            }
        }
    }
    if !is_there {
        let known = here.iter().flat_map(|site| site.agents.keys().cloned());
        return Some(Lack::Agent(known.collect()));
    }
    first.map(|(worker, agent, closed)| Lack::Unavailable {
        worker: worker.to_owned(),
        agent: agent.to_owned(),
        closed: closed.clone(),
    })
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::failure::Failure;

    const NOON: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

    #[test]
    fn pauses_of_an_account_grow_up_to_a_bound() {
        let mut pause = None;
        let mut now = NOON;
        let mut seconds = Vec::new();
        let pauses = Failure::RateLimit.policy().account.unwrap();
        let after = |before, now| after_failure(before, pauses, None, 1.0, now);
        for n in 1..=11 {
            let next = after(pause, now).unwrap();
            assert_eq!(next.failures, n);
            assert_eq!(
                after(Some(next), now),
                None,
                "sessions that fail together are one failure"
            );
            seconds.push((next.until - now).whole_seconds());
            now = next.until;
            pause = Some(next);
        }
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let worn = Pause {
            failures: i32::MAX,
            until: NOON,
        };
        assert_eq!(after(Some(worn), NOON).unwrap().until, NOON + pauses.longest);
    }

    #[test]
    fn a_pause_lasts_as_long_as_the_provider_asks_plus_jitter() {
        let pauses = Failure::Quota.policy().account.unwrap();
        let check = |asked: Option<u64>, jitter, expected: u64| {
            let asked = asked.map(Duration::from_secs);
            let pause = after_failure(None, pauses, asked, jitter, NOON).unwrap();
            assert_eq!(pause.until, NOON + Duration::from_secs(expected), "{asked:?}");
        };
        check(None, 1.0, 60);
        check(Some(20), 0.0, 20);
        check(Some(20), 1.0, 22);
        check(Some(3_600), 1.0, 3_630);
        check(Some(1_000_000), 0.0, 6 * 3_600);
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn one_session_tries_an_account_whose_pause_ended() {
        let at = |seconds| NOON + time::Duration::seconds(seconds);
        let probe = |live| Some(Probe { since: NOON, live });
        let check = |until, probe, now, expected| {
            assert_eq!(breaker_state(until, probe, (1, 0), now), expected);
        };
        check(at(1), None, NOON, BreakerState::Paused);
        check(at(1), probe(true), NOON, BreakerState::Paused);
        check(NOON, None, NOON, BreakerState::Free(1));
        check(NOON, probe(true), at(299), BreakerState::HalfOpen);
        check(NOON, probe(false), at(1), BreakerState::Free(1));
        check(NOON, probe(true), at(300), BreakerState::Free(1));
        for (width, live, expected) in [
            (2, 1, BreakerState::Free(1)),
            (4, 4, BreakerState::HalfOpen),
            (8, 9, BreakerState::HalfOpen),
        ] {
            assert_eq!(breaker_state(NOON, probe(true), (width, live), NOON), expected);
        }
    }

    fn closed(seconds: i64) -> Unavailability {
        Unavailability {
            account: None,
            door: Unavailable::NotFound,
            reason: "no".to_owned(),
            failures: 1,
            until: NOON + time::Duration::seconds(seconds),
            tried: false,
            width: 1,
        }
    }

    fn site(worker: &str, pool: &str, agents: &[&str], closed_for: &[(&str, i64)]) -> ActiveWorker {
        ActiveWorker {
            worker: worker.to_owned(),
            pools: names(&[pool]),
            agents: agents.iter().map(|&a| (a.to_owned(), a.to_owned())).collect(),
            rules: Vec::new(),
            closed: closed_for
                .iter()
                .map(|&(a, s)| (a.to_owned(), closed(s)))
                .collect(),
        }
    }

    #[test]
    fn a_task_lacks_a_worker_an_agent_or_an_available_one() {
        let check = |pool: &str, agent: &str, sites: &[ActiveWorker], expected: Option<Lack>| {
            let lack = lack(pool, agent, SessionKind::Verify, sites);
            assert_eq!(lack, expected, "{agent} in {pool}");
        };
        let door_of = |agent: &str, worker: &str, seconds| {
            Some(Lack::Unavailable {
                worker: worker.to_owned(),
                agent: agent.to_owned(),
                closed: closed(seconds),
            })
        };
        let door = |worker: &str, seconds| door_of("a", worker, seconds);
        let shut = [
            site("w1", "p", &["a", "b"], &[("a", 9)]),
            site("w2", "p", &["a"], &[("a", 5)]),
        ];
        check("p", "a", &shut, door("w2", 5));
        check("p", "b", &shut, None);
        check("p", NO_AGENT, &shut, None);
        check("q", "a", &shut, Some(Lack::Worker));
        check("q", NO_AGENT, &shut, Some(Lack::Worker));
        let known = names(&["a", "b"]).into_iter().collect();
        check("p", "c", &shut, Some(Lack::Agent(known)));
        let one_open = [site("w1", "p", &["a"], &[("a", 9)]), site("w2", "p", &["a"], &[])];
        check("p", "a", &one_open, None);
        let open_elsewhere = [site("w1", "p", &["a"], &[("a", 9)]), site("w2", "q", &["a"], &[])];
        check("p", "a", &open_elsewhere, door("w1", 9));
        let ruled = |closed: &[(&str, i64)]| {
            let mut site = site("w1", "p", &["default", "judge"], closed);
            site.rules = vec![AgentRule {
                agent: "judge".to_owned(),
                kinds: names(&["verify"]),
                ..AgentRule::default()
            }];
            [site]
        };
        check("p", "default", &ruled(&[("default", 9)]), None);
        check("p", "default", &ruled(&[("judge", 9)]), door_of("judge", "w1", 9));
    }
}

//! Who waits before a closed door, and for how long (SPEC 7.3).
//!
//! An agent that isn't found, begins no session or wants a login is closed by the worker that met it, which then doesn't offer it.
//! What concerns an account (rate, quota, overload) closes that account for every worker that uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{AgentRule, DEFAULT_AGENT, Door, agents_for};
use time::OffsetDateTime;

/// Pause after the first failure of an account, doubled with each further one.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: an account whose quota is used up is tried again this often.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// How long a session that tries an account keeps the others waiting without a word of its model: it may have died with its lease
/// still running, prepare a large repository, or be a worker's that doesn't tell.
pub const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// The agent of what needs none.
pub const NO_AGENT: &str = "";

/// Failures of an account in a row, and until when it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Failures in a row.
    pub failures: i32,
    /// Nothing that uses it is claimed before.
    pub until: OffsetDateTime,
}

/// What another failure leads to; `None` when it waits already: sessions that began together fail together, which is one failure.
pub fn after_failure(before: Option<Pause>, now: OffsetDateTime) -> Option<Pause> {
    if before.is_some_and(|pause| now < pause.until) {
        return None;
    }
    let failures = before.map_or(0, |pause| pause.failures);
    let doublings = u32::try_from(failures).unwrap_or(0).min(20);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    Some(Pause {
        failures: failures.saturating_add(1),
        until: now + pause,
    })
}

/// The session that tries an account whose pause ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// When it was claimed.
    pub since: OffsetDateTime,
    /// Whether its report is still to come, and its lease holds.
    pub live: bool,
}

/// How an account stands whose last session failed; one that stands nowhere is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody may use it yet.
    Paused,
    /// One session tries it; the others wait until that got past the door.
    Tried,
    /// One session may try it.
    Free,
}

/// Decides it. When a pause ends, those that wait would all meet the same limit at once: so one goes first.
pub fn standing(until: OffsetDateTime, probe: Option<Probe>, now: OffsetDateTime) -> Standing {
    let tries = |probe: Probe| probe.live && now < probe.since + PATIENCE;
    if now < until {
        Standing::Paused
    } else if probe.is_some_and(tries) {
        Standing::Tried
    } else {
        Standing::Free
    }
}

/// A worker that takes work, as far as it matters who may start what.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// Its name.
    pub worker: String,
    /// The pools that it serves.
    pub pools: Vec<String>,
    /// Its agents, each with its account.
    pub agents: BTreeMap<String, String>,
    /// What they are taken for where nobody names one.
    pub rules: Vec<AgentRule>,
    /// Those of them that it doesn't start now, or whose account is closed.
    pub closed: BTreeMap<String, Closed>,
}

/// Why something waits at a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The account, where it is that which is closed.
    pub account: Option<String>,
    /// What failed.
    pub door: Door,
    /// What it said.
    pub reason: String,
    /// Failures in a row.
    pub failures: u32,
    /// When it is tried again.
    pub until: OffsetDateTime,
    /// Whether a session tries it now.
    pub tried: bool,
}

/// Why nobody can start a task now that needs `agent` in `pool`; `None` when somebody can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// No worker serves the pool.
    Worker,
    /// No worker of the pool has the agent; these are the ones that they have.
    Agent(BTreeSet<String>),
    /// Every worker of the pool that has it waits at its door; this one opens first.
    Door {
        /// Its worker.
        worker: String,
        /// Which agent.
        agent: String,
        /// Why, and until when.
        closed: Closed,
    },
}

/// Decides what a session of a kind lacks, whose task asks for this agent; [`DEFAULT_AGENT`] where it asks for none.
pub fn lack(pool: &str, agent: &str, kind: SessionKind, sites: &[Site]) -> Option<Lack> {
    let here: Vec<&Site> = sites
        .iter()
        .filter(|site| site.pools.iter().any(|one| one == pool))
        .collect();
    if here.is_empty() {
        return Some(Lack::Worker);
    }
    if agent == NO_AGENT {
        return None;
    }
    let mut first: Option<(&str, &str, &Closed)> = None;
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
    first.map(|(worker, agent, closed)| Lack::Door {
        worker: worker.to_owned(),
        agent: agent.to_owned(),
        closed: closed.clone(),
    })
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOON: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

    #[test]
    fn pauses_of_an_account_grow_up_to_a_bound() {
        let mut pause = None;
        let mut now = NOON;
        let mut seconds = Vec::new();
        for n in 1..=11 {
            let next = after_failure(pause, now).unwrap();
            assert_eq!(next.failures, n);
            assert_eq!(after_failure(Some(next), now), None, "together is once");
            seconds.push((next.until - now).whole_seconds());
            now = next.until;
            pause = Some(next);
        }
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let worn = Pause {
            failures: i32::MAX,
            until: NOON,
        };
        assert_eq!(
            after_failure(Some(worn), NOON).unwrap().until,
            NOON + LONGEST_PAUSE
        );
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn one_session_tries_an_account_whose_pause_ended() {
        let at = |seconds| NOON + time::Duration::seconds(seconds);
        let probe = |live| Some(Probe { since: NOON, live });
        let check = |until, probe, now, expected| assert_eq!(standing(until, probe, now), expected);
        check(at(1), None, NOON, Standing::Paused);
        check(at(1), probe(true), NOON, Standing::Paused);
        check(NOON, None, NOON, Standing::Free);
        check(NOON, probe(true), at(299), Standing::Tried);
        check(NOON, probe(false), at(1), Standing::Free);
        check(NOON, probe(true), at(300), Standing::Free);
    }

    fn closed(seconds: i64) -> Closed {
        Closed {
            account: None,
            door: Door::NotFound,
            reason: "no".to_owned(),
            failures: 1,
            until: NOON + time::Duration::seconds(seconds),
            tried: false,
        }
    }

    fn site(worker: &str, pool: &str, agents: &[&str], closed_for: &[(&str, i64)]) -> Site {
        Site {
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
    fn what_a_task_lacks() {
        let check = |pool: &str, agent: &str, sites: &[Site], expected: Option<Lack>| {
            let lack = lack(pool, agent, SessionKind::Verify, sites);
            assert_eq!(lack, expected, "{agent} in {pool}");
        };
        let door_of = |agent: &str, worker: &str, seconds| {
            Some(Lack::Door {
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

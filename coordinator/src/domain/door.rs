//! Who waits before a closed door, and for how long (SPEC 7.3).
//!
//! An agent that isn't found, exits at once or wants a login is closed by the worker that met it, which then doesn't offer it.
//! What concerns an account (rate, quota, overload) closes that account for every worker that uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ralph_shared::wire::Door;
use time::OffsetDateTime;

/// Pause after the first failure of an account, doubled with each further one.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: an account whose quota is used up is tried again this often.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

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

/// What a free slot offers: its worker's pools, and the agents that it can start now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// The pools, each once, in order.
    pub pools: Vec<String>,
    /// The agents, each once, in order; [`NO_AGENT`] is always there, first.
    pub agents: Vec<String>,
}

impl Offer {
    /// Of these pools, those of `agents` whose account isn't closed. `accounts` names the account of each agent of the worker;
    /// the agent's own name is its account where nothing else is said.
    pub fn new<'a>(
        pools: &[String],
        agents: impl IntoIterator<Item = &'a str>,
        accounts: &BTreeMap<String, String>,
        closed: &BTreeSet<String>,
    ) -> Self {
        let is_open = |agent: &&str| {
            let account = accounts.get(*agent).map_or(*agent, String::as_str);
            !closed.contains(account)
        };
        let open: BTreeSet<&str> = agents.into_iter().filter(is_open).chain([NO_AGENT]).collect();
        let pools: BTreeSet<&String> = pools.iter().collect();
        Self {
            pools: pools.into_iter().cloned().collect(),
            agents: open.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The agents alone. What needs none is a follow-up, so nothing else has to be looked up for it.
    pub fn real_agents(&self) -> &[String] {
        match self.agents.split_first() {
            Some((first, rest)) if first == NO_AGENT => rest,
            _ => &self.agents,
        }
    }

    /// Everything that several workers offer in one pool.
    pub fn of_pool<'a>(pool: &str, offers: impl IntoIterator<Item = &'a Offer>) -> Self {
        let mut agents: BTreeSet<&str> = BTreeSet::from([NO_AGENT]);
        for offer in offers {
            if offer.pools.iter().any(|one| one == pool) {
                agents.extend(offer.agents.iter().map(String::as_str));
            }
        }
        Self {
            pools: vec![pool.to_owned()],
            agents: agents.into_iter().map(str::to_owned).collect(),
        }
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
        /// Why, and until when.
        closed: Closed,
    },
}

/// Decides what a task lacks.
pub fn lack(pool: &str, agent: &str, sites: &[Site]) -> Option<Lack> {
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
    let having: Vec<&&Site> = here
        .iter()
        .filter(|site| site.agents.contains_key(agent))
        .collect();
    if having.is_empty() {
        let known = here.iter().flat_map(|site| site.agents.keys().cloned());
        return Some(Lack::Agent(known.collect()));
    }
    let mut first: Option<(&str, &Closed)> = None;
    for site in having {
        let closed = site.closed.get(agent)?;
        if first.is_none_or(|(_, other)| closed.until < other.until) {
            first = Some((&site.worker, closed));
        }
    }
    first.map(|(worker, closed)| Lack::Door {
        worker: worker.to_owned(),
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

    fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()
    }

    #[test]
    fn offers_leave_out_whose_account_is_closed() {
        let check = |agents: &[&str], accounts: &[(&str, &str)], closed: &[&str], expected: &[&str]| {
            let closed = names(closed).into_iter().collect();
            let offer = Offer::new(
                &names(&["p", "p", "a"]),
                agents.iter().copied(),
                &map(accounts),
                &closed,
            );
            assert_eq!(offer.agents, names(expected));
            assert_eq!(offer.real_agents(), &names(expected)[1..]);
            assert_eq!(offer.pools, names(&["a", "p"]));
        };
        check(&["b", "a", "a"], &[], &[], &["", "a", "b"]);
        check(&["a", "b"], &[("a", "x"), ("b", "y")], &["x"], &["", "b"]);
        check(&["a", "b"], &[("a", "x"), ("b", "x")], &["x"], &[""]);
        check(
            &["a", "b"],
            &[("a", "x"), ("b", "y")],
            &["a", "b"],
            &["", "a", "b"],
        );
        check(&["a", "b"], &[], &["a"], &["", "b"]);
        check(&[], &[], &["a"], &[""]);
    }

    #[test]
    fn a_pool_offers_what_its_workers_do() {
        let offer = |pools: &[&str], agents: &[&str]| Offer {
            pools: names(pools),
            agents: names(agents),
        };
        let offers = [
            offer(&["p", "q"], &["", "a"]),
            offer(&["p"], &["", "b"]),
            offer(&["q"], &["c"]),
        ];
        assert_eq!(Offer::of_pool("p", &offers), offer(&["p"], &["", "a", "b"]));
        assert_eq!(Offer::of_pool("r", &offers), offer(&["r"], &[""]));
    }

    fn closed(seconds: i64) -> Closed {
        Closed {
            account: None,
            door: Door::NotFound,
            reason: "no".to_owned(),
            failures: 1,
            until: NOON + time::Duration::seconds(seconds),
        }
    }

    fn site(worker: &str, pool: &str, agents: &[&str], closed_for: &[(&str, i64)]) -> Site {
        Site {
            worker: worker.to_owned(),
            pools: names(&[pool]),
            agents: agents.iter().map(|&a| (a.to_owned(), a.to_owned())).collect(),
            closed: closed_for
                .iter()
                .map(|&(a, s)| (a.to_owned(), closed(s)))
                .collect(),
        }
    }

    #[test]
    fn what_a_task_lacks() {
        let check = |pool: &str, agent: &str, sites: &[Site], expected: Option<Lack>| {
            assert_eq!(lack(pool, agent, sites), expected, "{agent} in {pool}");
        };
        let door = |worker: &str, seconds| {
            Some(Lack::Door {
                worker: worker.to_owned(),
                closed: closed(seconds),
            })
        };
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
    }
}

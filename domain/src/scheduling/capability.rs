//! The offer of a free slot: its worker's pools, and the agents that can start now (SPEC 7.3, 8).

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{AgentRule, DEFAULT_AGENT, agents_for};

use crate::scheduling::availability::NO_AGENT;

/// Accounts that a slot may use.
#[derive(Debug, Clone, Copy)]
pub enum Accounts<'a> {
    /// All but these.
    Not(&'a BTreeSet<String>),
    /// This one, to try it.
    Only(&'a str),
}

impl Accounts<'_> {
    fn allow(self, account: &str) -> bool {
        match self {
            Self::Not(closed) => !closed.contains(account),
            Self::Only(one) => one == account,
        }
    }
}

/// A worker's agents, for claims and tickets.
#[derive(Debug, Clone, Copy)]
pub struct Agents<'a> {
    pub accounts: &'a BTreeMap<String, String>,
    /// The worker's rules for tasks without an agent.
    pub rules: &'a [AgentRule],
}

/// The offer of a free slot: its worker's pools, and the agents that can start now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// The pools, each once, in order.
    pub pools: Vec<String>,
    /// The agents that can start, each once, in order.
    pub startable: Vec<String>,
    /// Agent names of the queue that it serves: those, [`DEFAULT_AGENT`] when it can start tasks without an
    /// agent, and [`NO_AGENT`], first.
    pub agents: Vec<String>,
    /// Pools and kinds of sessions that it cannot start although `agents` holds [`DEFAULT_AGENT`].
    pub shut: Vec<(String, SessionKind)>,
}

impl Capability {
    /// An offer for these pools, of those `open` agents whose account may be used. By default an agent's
    /// account is its own name. A slot that tries an account offers nothing else.
    pub fn new<'a>(
        pools: &[String],
        open: impl IntoIterator<Item = &'a str>,
        worker: Agents<'_>,
        accounts: Accounts<'_>,
    ) -> Self {
        let may_start = |agent: &&str| {
            let account = worker.accounts.get(*agent).map_or(*agent, String::as_str);
            accounts.allow(account)
        };
        let startable: BTreeSet<&str> = open.into_iter().filter(may_start).collect();
        let pools: BTreeSet<&String> = pools.iter().collect();
        let (mut shut, mut any_unnamed) = (Vec::new(), false);
        for &pool in &pools {
            for kind in SessionKind::ALL.into_iter().filter(|kind| kind.has_agent()) {
                let mut agents = agents_for(worker.rules, kind, pool).into_iter();
                if agents.any(|agent| startable.contains(agent)) {
                    any_unnamed = true;
                } else {
                    shut.push((pool.clone(), kind));
                }
            }
        }
        let mut agents = startable.clone();
        if any_unnamed {
            agents.insert(DEFAULT_AGENT);
        } else {
            agents.remove(DEFAULT_AGENT);
            shut.clear();
        }
        if let Accounts::Not(_) = accounts {
            agents.insert(NO_AGENT);
        }
        let names = |list: BTreeSet<&str>| list.into_iter().map(str::to_owned).collect();
        Self {
            pools: pools.into_iter().cloned().collect(),
            startable: names(startable),
            agents: names(agents),
            shut,
        }
    }

    /// [`Self::shut`] as the store compares it.
    pub fn shut_words(&self) -> Vec<String> {
        let words = |(pool, kind): &(String, SessionKind)| format!("{pool} {kind}");
        self.shut.iter().map(words).collect()
    }

    /// Whether a session with this agent can start; one without an agent always can.
    pub fn can_start(&self, agent: Option<&str>) -> bool {
        agent.is_none_or(|agent| self.startable.iter().any(|one| one == agent))
    }

    /// The combined offers of several workers in one pool.
    pub fn of_pool<'a>(pool: &str, offers: impl IntoIterator<Item = &'a Capability>) -> Self {
        let mut agents: BTreeSet<&str> = BTreeSet::from([NO_AGENT]);
        let mut startable: BTreeSet<&str> = BTreeSet::new();
        let mut shut: Option<BTreeSet<(String, SessionKind)>> = None;
        let here = |offer: &&Capability| offer.pools.iter().any(|one| one == pool);
        for offer in offers.into_iter().filter(here) {
            agents.extend(offer.agents.iter().map(String::as_str));
            startable.extend(offer.startable.iter().map(String::as_str));
            if offer.agents.iter().any(|agent| agent == DEFAULT_AGENT) {
                let mut its: BTreeSet<_> = offer
                    .shut
                    .iter()
                    .filter(|(one, _)| one == pool)
                    .cloned()
                    .collect();
                if let Some(shut) = shut {
                    its.retain(|one| shut.contains(one));
                }
                shut = Some(its);
            }
        }
        Self {
            pools: vec![pool.to_owned()],
            startable: startable.into_iter().map(str::to_owned).collect(),
            agents: agents.into_iter().map(str::to_owned).collect(),
            shut: shut.into_iter().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()
    }

    fn rule(agent: &str, kinds: &[&str], tiers: &[&str]) -> AgentRule {
        AgentRule {
            agent: agent.to_owned(),
            kinds: names(kinds),
            tiers: names(tiers),
            ..AgentRule::default()
        }
    }

    #[test]
    fn a_slot_that_tries_an_account_offers_nothing_else() {
        let accounts = map(&[("default", "x"), ("a", "y"), ("b", "x")]);
        let worker = Agents {
            accounts: &accounts,
            rules: &[],
        };
        let open = ["default", "a", "b"];
        let offer = Capability::new(&names(&["p"]), open, worker, Accounts::Only("x"));
        assert_eq!(offer.agents, names(&["b", "default"]));
        let offer = Capability::new(&names(&["p"]), open, worker, Accounts::Only("y"));
        assert_eq!(offer.agents, names(&["a"]));
    }

    #[test]
    fn tasks_without_an_agent_are_offered_if_their_agent_can_start() {
        let rules = [
            rule("judge", &["verify", "review"], &[]),
            rule("strong", &[], &["opus"]),
        ];
        let check = |open: &[&str], agents: &[&str], shut: &[&str]| {
            let own = BTreeMap::new();
            let worker = Agents {
                accounts: &own,
                rules: &rules,
            };
            let none = BTreeSet::new();
            let offer = Capability::new(&names(&["p"]), open.iter().copied(), worker, Accounts::Not(&none));
            assert_eq!(offer.agents, names(agents), "{open:?}");
            assert_eq!(offer.shut_words(), names(shut), "{open:?}");
            offer
        };
        let all = ["", "default", "judge", "strong"];
        check(&["default", "judge", "strong"], &all, &[]);
        let judged = ["p verify", "p review"];
        let offer = check(&["default", "strong"], &["", "default", "strong"], &judged);
        assert!(offer.can_start(None) && offer.can_start(Some("strong")) && !offer.can_start(Some("judge")));
        let rest = ["p spec", "p plan", "p build", "p work", "p distill"];
        check(&["judge"], &["", "default", "judge"], &rest);
        // One tier or another may fit: the claim decides.
        check(&["strong"], &["", "default", "strong"], &judged);
        check(&["other"], &["", "other"], &[]);
        check(&[], &[""], &[]);
    }

    #[test]
    fn offers_omit_agents_whose_account_is_closed() {
        let check = |agents: &[&str], accounts: &[(&str, &str)], closed: &[&str], expected: &[&str]| {
            let (closed, accounts) = (names(closed).into_iter().collect(), map(accounts));
            let worker = Agents {
                accounts: &accounts,
                rules: &[],
            };
            let offer = Capability::new(
                &names(&["p", "p", "a"]),
                agents.iter().copied(),
                worker,
                Accounts::Not(&closed),
            );
            assert_eq!(offer.agents, names(expected));
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
    fn the_offer_of_a_pool_combines_those_of_its_workers() {
        let offer = |pools: &[&str], agents: &[&str]| Capability {
            pools: names(pools),
            startable: Vec::new(),
            agents: names(agents),
            shut: Vec::new(),
        };
        let offers = [
            offer(&["p", "q"], &["", "a"]),
            offer(&["p"], &["", "b"]),
            offer(&["q"], &["c"]),
        ];
        assert_eq!(Capability::of_pool("p", &offers), offer(&["p"], &["", "a", "b"]));
        assert_eq!(Capability::of_pool("r", &offers), offer(&["r"], &[""]));
        let shut = |pools: &[&str], agents: &[&str], kinds: &[SessionKind]| Capability {
            shut: kinds.iter().map(|kind| ("p".to_owned(), *kind)).collect(),
            ..offer(pools, agents)
        };
        let (verify, review) = (SessionKind::Verify, SessionKind::Review);
        let offers = [
            shut(&["p"], &["", "default"], &[verify, review]),
            shut(&["p", "q"], &["", "default"], &[verify]),
            offer(&["p"], &["", "other"]),
            offer(&["q"], &["", "default"]),
        ];
        assert_eq!(Capability::of_pool("p", &offers).shut, [("p".to_owned(), verify)]);
        assert!(Capability::of_pool("q", &offers).shut.is_empty());
    }
}

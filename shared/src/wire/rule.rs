//! The sessions that a worker's agents get when nobody names an agent: by kind of session, pool and tier
//! (SPEC 8).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::kind::SessionKind;

/// The agent for sessions that no rule gives to another one.
pub const DEFAULT_AGENT: &str = "default";

/// The sessions that one agent gets. An empty list allows all; if all lists are empty, the agent gets only
/// sessions that name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRule {
    /// Its name among the worker's agents.
    pub agent: String,
    /// Kinds of session, by their words.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Pools of the tasks.
    #[serde(default)]
    pub pools: Vec<String>,
    /// Tiers of models, or models' own names.
    #[serde(default)]
    pub tiers: Vec<String>,
}

impl AgentRule {
    /// How specific the rule is: a kind precedes a pool, and a pool precedes a tier.
    fn rank(&self) -> [bool; 3] {
        [&self.kinds, &self.pools, &self.tiers].map(|list| !list.is_empty())
    }

    /// Whether it fits such sessions, with some tier.
    fn may_fit(&self, kind: SessionKind, pool: &str) -> bool {
        let names = |list: &[String], word: &str| list.is_empty() || list.iter().any(|one| one == word);
        self.rank() != [false; 3] && names(&self.kinds, kind.into_str()) && names(&self.pools, pool)
    }

    /// Whether both could fit the same session, and neither is more specific.
    pub fn contradicts(&self, other: &Self) -> bool {
        let share = |a: &[String], b: &[String]| a.is_empty() || a.iter().any(|one| b.contains(one));
        self.rank() == other.rank()
            && self.rank() != [false; 3]
            && share(&self.kinds, &other.kinds)
            && share(&self.pools, &other.pools)
            && share(&self.tiers, &other.tiers)
    }
}

/// The agent of a worker with these rules for a session that names none.
pub fn agent_for<'a>(rules: &'a [AgentRule], kind: SessionKind, pool: &str, tier: Option<&str>) -> &'a str {
    let fits = |rule: &&AgentRule| {
        let has_tier = |tier: &str| rule.tiers.iter().any(|one| one == tier);
        rule.may_fit(kind, pool) && (rule.tiers.is_empty() || tier.is_some_and(has_tier))
    };
    let best = rules.iter().filter(fits).max_by_key(|rule| rule.rank());
    best.map_or(DEFAULT_AGENT, |rule| &rule.agent)
}

/// The possible agents for such a session, which depend on the tier chosen at its claim.
pub fn agents_for<'a>(rules: &'a [AgentRule], kind: SessionKind, pool: &str) -> BTreeSet<&'a str> {
    let fitting: Vec<&AgentRule> = rules.iter().filter(|rule| rule.may_fit(kind, pool)).collect();
    // A rule without tiers gets every session that no more specific rule gets.
    let any_tier = fitting.iter().filter(|rule| rule.tiers.is_empty());
    let rest = any_tier.max_by_key(|rule| rule.rank());
    let first = fitting
        .iter()
        .filter(|rule| rest.is_none_or(|rest| rule.rank() >= rest.rank()));
    let rest = rest.map_or(DEFAULT_AGENT, |rule| &rule.agent);
    first.map(|rule| rule.agent.as_str()).chain([rest]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(agent: &str, kinds: &[&str], pools: &[&str], tiers: &[&str]) -> AgentRule {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        AgentRule {
            agent: agent.to_owned(),
            kinds: words(kinds),
            pools: words(pools),
            tiers: words(tiers),
        }
    }

    #[test]
    fn the_most_specific_rule_decides() {
        use SessionKind::{Review, Verify, Work};
        let rules = [
            rule("named", &[], &[], &[]),
            rule("strong", &[], &[], &["opus"]),
            rule("gpu", &[], &["gpu"], &[]),
            rule("judge", &["verify", "review"], &[], &[]),
            rule("strict", &["verify"], &[], &["opus"]),
        ];
        let check = |kind, pool, tier, expected: &str, all: &[&str]| {
            let agent = agent_for(&rules, kind, pool, tier);
            assert_eq!(agent, expected, "{kind} in {pool} with {tier:?}");
            let possible: Vec<_> = agents_for(&rules, kind, pool).into_iter().collect();
            assert_eq!(possible, all, "{kind} in {pool}");
        };
        check(Work, "p", None, DEFAULT_AGENT, &["default", "strong"]);
        check(Work, "p", Some("sonnet"), DEFAULT_AGENT, &["default", "strong"]);
        check(Work, "p", Some("opus"), "strong", &["default", "strong"]);
        check(Work, "gpu", Some("opus"), "gpu", &["gpu"]);
        check(Verify, "gpu", Some("sonnet"), "judge", &["judge", "strict"]);
        check(Verify, "p", Some("opus"), "strict", &["judge", "strict"]);
        check(Review, "p", Some("opus"), "judge", &["judge"]);
        assert_eq!(agent_for(&[], Work, "p", Some("opus")), DEFAULT_AGENT);
    }

    #[test]
    fn overlapping_rules_of_equal_specificity_contradict_each_other() {
        let check = |a: &AgentRule, b: &AgentRule, expected| {
            assert_eq!((a.contradicts(b), b.contradicts(a)), (expected, expected));
        };
        let verify = rule("a", &["verify"], &[], &[]);
        check(&verify, &rule("b", &["verify", "review"], &[], &[]), true);
        check(&verify, &rule("b", &["review"], &[], &[]), false);
        check(&verify, &rule("b", &[], &["p"], &[]), false);
        check(&verify, &rule("b", &["verify"], &["p"], &[]), false);
        let opus = rule("a", &[], &["p"], &["opus"]);
        check(&opus, &rule("b", &[], &["p"], &["haiku"]), false);
        check(&opus, &rule("b", &[], &["p", "q"], &["opus"]), true);
        check(&rule("a", &[], &[], &[]), &rule("b", &[], &[], &[]), false);
    }
}

//! Which agent gets a session that names none (SPEC 8): `kinds`, `pools` and `tiers` of `[agents.NAME]`.

use anyhow::bail;
use ralph_shared::kind::SessionKind;
use ralph_shared::subjects::is_label;
use ralph_shared::wire::{AgentRule, DEFAULT_AGENT};

use super::file::File;
use ralph_shared::config::RuleTable;

/// The rules of all agents that have some.
pub(super) fn of(file: &File) -> anyhow::Result<Vec<AgentRule>> {
    if file.agent.as_ref().is_some_and(|table| !table.rules.is_empty()) {
        bail!(
            "[agent] gets the sessions of no other agent: give `kinds`, `pools` and `tiers` to an [agents.NAME]"
        );
    }
    let mut rules: Vec<AgentRule> = Vec::new();
    for (name, table) in file.agents.iter().filter(|(_, table)| !table.rules.is_empty()) {
        if name == DEFAULT_AGENT {
            bail!(
                "[agents.{DEFAULT_AGENT}] gets the sessions of no other agent: leave out its `kinds`, `pools` and `tiers`"
            );
        }
        let rule = rule(name, &table.rules)?;
        if let Some(other) = rules.iter().find(|other| other.contradicts(&rule)) {
            bail!(
                "agents `{}` and `{name}` are for the same sessions: tell them apart by `kinds`, `pools` or `tiers`, or leave these \
                 out of one",
                other.agent
            );
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn rule(name: &str, table: &RuleTable) -> anyhow::Result<AgentRule> {
    let with_agent = || SessionKind::ALL.into_iter().filter(|kind| kind.has_agent());
    let known = |word: &String| with_agent().any(|kind| kind.into_str() == word);
    if let Some(word) = table.kinds.iter().find(|word| !known(word)) {
        let words: Vec<&str> = with_agent().map(|one| one.into_str()).collect();
        bail!(
            "`{word}` in `kinds` of agent `{name}` is no kind of session: expected one of {}",
            words.join(", ")
        );
    }
    if let Some(pool) = table.pools.iter().find(|pool| !is_label(pool)) {
        bail!("`{pool}` in `pools` of agent `{name}` can't name a pool: use 1 to 40 of a-z, 0-9 and `-`");
    }
    if table.tiers.iter().any(|tier| tier.trim().is_empty()) {
        bail!("an entry in `tiers` of agent `{name}` is empty: name a tier of [models], `opus` say");
    }
    Ok(AgentRule {
        agent: name.to_owned(),
        kinds: table.kinds.clone(),
        pools: table.pools.clone(),
        tiers: table.tiers.clone(),
    })
}

/// The sessions that an agent gets without being named, in words. `None` if it must be named.
pub(super) fn rule_in_words(rules: &[AgentRule], agent: &str) -> Option<String> {
    match rules.iter().find(|rule| rule.agent == agent) {
        Some(rule) => Some(words(rule)),
        None if agent != DEFAULT_AGENT => None,
        None if rules.is_empty() => Some("sessions that name no agent".to_owned()),
        None => Some("sessions that name no agent and aren't for another one".to_owned()),
    }
}

fn words(rule: &AgentRule) -> String {
    let part =
        |what: &str, list: &[String]| (!list.is_empty()).then(|| format!("{what} {}", list.join(", ")));
    let parts = [
        part("kinds", &rule.kinds),
        part("pools", &rule.pools),
        part("tiers", &rule.tiers),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<AgentRule>, String> {
        of(&toml::from_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_are_described_in_words() {
        let rules = read(
            "[agents.judge]\nkinds = [\"verify\", \"review\"]\n[agents.named]\n\
             [agents.strong]\npools = [\"gpu\"]\ntiers = [\"opus\"]\n",
        );
        let words: Vec<_> = rules
            .unwrap()
            .iter()
            .map(|rule| (rule.agent.clone(), words(rule)))
            .collect();
        let expected = [
            ("judge", "kinds verify, review"),
            ("strong", "pools gpu; tiers opus"),
        ];
        assert_eq!(
            words,
            expected.map(|(agent, words)| (agent.to_owned(), words.to_owned()))
        );
    }

    #[test]
    fn an_invalid_rule_is_refused_with_what_to_change() {
        let refused = |text: &str, expected: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refused(
            "[agents.a]\nkinds = [\"integrate\"]\n",
            "expected one of spec, plan, build, work, verify",
        );
        refused("[agents.a]\npools = [\"A b\"]\n", "can't name a pool");
        refused("[agents.a]\ntiers = [\"\"]\n", "name a tier");
        refused("[agent]\nkinds = [\"work\"]\n", "[agents.NAME]");
        refused("[agents.default]\nkinds = [\"work\"]\n", "leave out");
        let same = "[agents.a]\nkinds = [\"verify\"]\n[agents.b]\nkinds = [\"review\", \"verify\"]\n";
        refused(same, "agents `a` and `b` are for the same sessions");
    }
}

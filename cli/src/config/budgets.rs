//! `[budgets]` of `.ralph.toml`: limits of cost and tokens beside those of a run. No other limit of the same
//! level may exceed them.

use std::collections::BTreeMap;

use serde::Deserialize;

use ralph_domain::budget::levels::{Level, Limit};
use ralph_shared::config::{Key, Reader, words};

pub(super) fn keys() -> Vec<Key> {
    let of_level = |level: Level| {
        let spender = match level {
            Level::Session => "a session",
            Level::Task => "all sessions of a task",
            Level::Feature => "all runs of a feature",
            Level::Run => "a run",
            Level::Account => "each account of a provider",
            Level::Day => "all sessions of a day, by UTC,",
            Level::Installation => "all sessions ever",
        };
        [
            ("cost", format!("What {spender} may cost at most, in USD")),
            (
                "tokens",
                format!("What {spender} may use at most, in tokens in and out"),
            ),
        ]
        .map(|(unit, about)| {
            let name = format!("budgets.{}_{unit}", level.into_str());
            words("no limit").key(name.leak(), Reader::Coordinator, about.leak())
        })
    };
    Level::ALL.into_iter().flat_map(of_level).collect()
}

/// `[budgets]`: `LEVEL_cost` in USD, `LEVEL_tokens` in and out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Budgets(BTreeMap<String, f64>);

impl Budgets {
    pub fn checked(&self) -> anyhow::Result<BTreeMap<Level, Limit>> {
        let get = |level: Level, unit: &str| {
            let key = format!("{}_{unit}", level.into_str());
            match self.0.get(&key) {
                Some(most) if !most.is_finite() || *most <= 0.0 => {
                    anyhow::bail!("budgets.{key} must be more than 0, not {most}; leave it out for none")
                }
                most => Ok(most.copied()),
            }
        };
        let mut limits = BTreeMap::new();
        for level in Level::ALL {
            let limit = Limit {
                cost_usd: get(level, "cost")?,
                // Floats are exact enough at this size.
                tokens: get(level, "tokens")?.map(|tokens| tokens as i64),
            };
            if !limit.is_none() {
                limits.insert(level, limit);
            }
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::Config;
    use ralph_domain::budget::levels::{Level, Limit};

    #[test]
    fn budgets_must_be_above_zero() {
        let levels = |text: &str| {
            let (config, unknown) = Config::parse(text).unwrap();
            (config.budgets.checked(), unknown)
        };
        assert!(levels("").0.unwrap().is_empty());
        let (given, unknown) = levels("[budgets]\nday_cost = 50\naccount_tokens = 1000000\nweek_cost = 3\n");
        assert_eq!(unknown, ["budgets.week_cost"]);
        let given = given.unwrap();
        assert_eq!(given[&Level::Day].cost_usd, Some(50.0));
        let tokens = Limit {
            cost_usd: None,
            tokens: Some(1_000_000),
        };
        assert_eq!((given.len(), given[&Level::Account]), (2, tokens));
        for most in ["0", "-1.5", "nan", "inf"] {
            let error = levels(&format!("[budgets]\ntask_cost = {most}"))
                .0
                .unwrap_err()
                .to_string();
            assert!(error.contains("budgets.task_cost must be more than 0"), "{error}");
        }
    }
}

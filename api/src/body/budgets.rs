//! Limits beside the run's that a submission brings along.

use serde::{Deserialize, Serialize};

use ralph_domain::budget::levels::{Level, Limit};

/// A limit; 0 is none, as if it weren't given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitOptions {
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub cost_usd: Option<f64>,
    /// Tokens read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub tokens: Option<i64>,
}

/// Limits by what they are of. None may be above the one that is set for all of its level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetOptions {
    /// Each session of the feature.
    #[serde(default, skip_serializing_if = "LimitOptions::is_none")]
    pub session: LimitOptions,
    /// Each task of the feature, or the one that is submitted into it.
    #[serde(default, skip_serializing_if = "LimitOptions::is_none")]
    pub task: LimitOptions,
    /// The feature, over all its runs.
    #[serde(default, skip_serializing_if = "LimitOptions::is_none")]
    pub feature: LimitOptions,
}

impl BudgetOptions {
    /// Whether nothing is wished for.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The limits that are asked for, by their levels.
    ///
    /// # Errors
    /// In words, when one is none, or above what `allowed` says of its level.
    pub fn checked(&self, allowed: impl Fn(Level) -> Limit) -> Result<Vec<(Level, Limit)>, String> {
        let given = [
            (Level::Session, self.session),
            (Level::Task, self.task),
            (Level::Feature, self.feature),
        ];
        let mut limits = Vec::new();
        for (level, options) in given {
            let limit = options.limit(level)?;
            if limit.is_none() {
                continue;
            }
            let most = allowed(level);
            let above = |what: &str, most: String| {
                let level = level.as_str();
                format!(
                    "`budgets.{level}.{what}` is at most {most}: the limit of each {level} (`ralph budget`); give that or less"
                )
            };
            match (limit.cost_usd, most.cost_usd) {
                (Some(usd), Some(most)) if usd > most => return Err(above("cost_usd", format!("{most:.2}"))),
                _ => {}
            }
            match (limit.tokens, most.tokens) {
                (Some(tokens), Some(most)) if tokens > most => return Err(above("tokens", most.to_string())),
                _ => {}
            }
            // What isn't said of it stays as it is for all of the level.
            limits.push((level, limit.least(most)));
        }
        Ok(limits)
    }
}

impl LimitOptions {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn limit(self, level: Level) -> Result<Limit, String> {
        if self.cost_usd.is_some_and(|usd| !usd.is_finite() || usd < 0.0)
            || self.tokens.is_some_and(|n| n < 0)
        {
            let level = level.as_str();
            return Err(format!("`budgets.{level}`: a limit is 0 or more; 0 is no limit"));
        }
        Ok(Limit {
            cost_usd: self.cost_usd.filter(|usd| *usd > 0.0),
            tokens: self.tokens.filter(|n| *n > 0),
        })
    }
}

/// A limit as it is to be. A value of 0 is no limit; one that isn't given stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetBudget {
    /// The feature, task or account that it is of alone, or the feature whose sessions or tasks it is of each; all of the level when it
    /// isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub cost_usd: Option<f64>,
    /// Tokens read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub tokens: Option<i64>,
    /// Whether runs go on that ended at a feature's limit; `true` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn usd(cost_usd: f64) -> Limit {
        Limit {
            cost_usd: Some(cost_usd),
            tokens: None,
        }
    }

    #[test]
    fn what_is_wished_for_is_within_what_holds_for_all_of_the_level() {
        let check = |options: f64, expected: Result<Option<f64>, &str>| {
            let options = BudgetOptions {
                task: LimitOptions {
                    cost_usd: Some(options),
                    tokens: None,
                },
                ..BudgetOptions::default()
            };
            let allowed = |level| match level {
                Level::Task => usd(5.0),
                _ => Limit::default(),
            };
            match (options.checked(allowed), expected) {
                (Ok(limits), Ok(limit)) => {
                    let expected: Vec<_> = limit.map(|limit| (Level::Task, usd(limit))).into_iter().collect();
                    assert_eq!(limits, expected);
                }
                (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
                (got, _) => panic!("{options:?}: {got:?}"),
            }
        };
        check(2.0, Ok(Some(2.0)));
        check(5.0, Ok(Some(5.0)));
        check(5.5, Err("`budgets.task.cost_usd` is at most 5.00"));
        check(0.0, Ok(None));
        check(-1.0, Err("`budgets.task`: a limit is 0 or more"));
        check(f64::NAN, Err("0 is no limit"));
        assert_eq!(BudgetOptions::default().checked(|_| usd(1.0)), Ok(Vec::new()));
    }
}

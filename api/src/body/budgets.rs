//! Limits that a submission sets in addition to the run's.

use serde::{Deserialize, Serialize};

use ralph_domain::budget::levels::{Level, Limit};

/// A limit; 0 means no limit, as if omitted.
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

/// Limits by level. None may exceed the limit set for the whole level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetOptions {
    /// Limit of each session of the feature.
    #[serde(default, skip_serializing_if = "LimitOptions::is_none")]
    pub session: LimitOptions,
    /// Limit of each task of the feature, or of the one task that is submitted into it.
    #[serde(default, skip_serializing_if = "LimitOptions::is_none")]
    pub task: LimitOptions,
    /// Limit of the feature over all its runs.
    #[serde(default, skip_serializing_if = "LimitOptions::is_none")]
    pub feature: LimitOptions,
}

impl BudgetOptions {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The requested limits by level.
    ///
    /// # Errors
    /// A message when a limit is invalid, or exceeds the `allowed` limit of its level.
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
                let level = level.into_str();
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
            // A value that is not given falls back to the level's limit.
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
            let level = level.into_str();
            return Err(format!("`budgets.{level}`: a limit is 0 or more; 0 is no limit"));
        }
        Ok(Limit {
            cost_usd: self.cost_usd.filter(|usd| *usd > 0.0),
            tokens: self.tokens.filter(|n| *n > 0),
        })
    }
}

/// A new limit. A value of 0 means no limit; an omitted value stays unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetBudget {
    /// The one feature, task or account that it limits, or the feature whose sessions or tasks it limits
    /// each; the whole level when omitted.
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
    /// Whether to resume runs that ended at a feature's limit; `true` when omitted.
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
    fn a_requested_limit_may_not_exceed_the_levels_limit() {
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

//! Usage of sessions, and their shares of a run's limits.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::ids::DispatchId;

/// Usage of a session. `None` is unknown, which is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens read from a cache.
    pub cached_tokens: Option<u64>,
    /// Tokens written into a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Maximum number of tokens in its context: at least that many were read or written, whatever else is
    /// reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    /// The basis of the cost, or the reason why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// The basis of a cost, from the least to the most certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Basis {
    /// Estimated from lengths of texts.
    Estimated,
    /// Reported by the agent, or computed from its reported tokens.
    Known,
    /// No payment by usage.
    Subscription,
}

impl Basis {
    /// Parses [`Self::into_str`].
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Estimated, Self::Known, Self::Subscription]
            .into_iter()
            .find(|basis| basis.into_str() == word)
    }
}

impl Usage {
    /// The certainty of its cost; a cost without a basis was reported.
    #[must_use]
    pub fn sureness(&self) -> Option<Basis> {
        self.basis.or(self.cost_usd.map(|_| Basis::Known))
    }

    #[must_use]
    pub fn is_estimated(&self) -> bool {
        self.basis == Some(Basis::Estimated)
    }

    /// The greater of each figure. A more certain cost precedes a greater one.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cached_tokens: self.cached_tokens.max(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.max(other.cache_write_tokens),
            context_tokens: self.context_tokens.max(other.context_tokens),
            cost_usd: match self.sureness().cmp(&other.sureness()) {
                Ordering::Greater => self.cost_usd,
                Ordering::Less => other.cost_usd,
                Ordering::Equal => match (self.cost_usd, other.cost_usd) {
                    (Some(one), Some(other)) => Some(one.max(other)),
                    (one, other) => one.or(other),
                },
            },
            basis: self.sureness().max(other.sureness()),
        }
    }

    /// The final usage: tokens that nobody reported separately count as read.
    #[must_use]
    pub fn settled(self) -> Self {
        let unreported = self
            .context_tokens
            .map(|tokens| tokens.saturating_sub(self.output_tokens.unwrap_or(0)));
        Self {
            input_tokens: self.input_tokens.max(unreported),
            ..self
        }
    }

    /// The tokens that a run's limit counts: read and written.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let of = |count: Option<u64>| count.unwrap_or(0);
        of(self.input_tokens)
            .saturating_add(of(self.output_tokens))
            .max(of(self.context_tokens))
    }

    /// The cost in millionths of a US dollar, rounded up; 0 if unknown.
    #[must_use]
    pub fn microusd(&self) -> u64 {
        // A float beyond the range becomes the nearest number, and NaN becomes 0.
        self.cost_usd.map_or(0, |usd| (usd * 1e6).ceil() as u64)
    }
}

/// The part of a run's cost and token limits that a session may use; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Share {
    /// Cost. Millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microusd: Option<u64>,
    /// Tokens read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Share {
    /// The smaller share, in each unit.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            microusd: least(self.microusd, other.microusd),
            tokens: least(self.tokens, other.tokens),
        }
    }

    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// Usage of a running dispatch so far. No figure ever decreases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DispatchUsage {
    pub dispatch: DispatchId,
    #[serde(default)]
    pub usage: Usage,
    /// Whether half of its share is used, so that it needs more.
    #[serde(default)]
    pub asks: bool,
}

/// The new share of a running dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub dispatch: DispatchId,
    /// The whole share, including what is already used.
    pub share: Share,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_only_grow_and_invalid_costs_are_bounded() {
        let usage = |input, cost_usd| Usage {
            input_tokens: input,
            cost_usd,
            ..Usage::default()
        };
        let both = usage(Some(5), None).max(usage(Some(3), Some(0.5)));
        let expected = Usage {
            basis: Some(Basis::Known),
            ..usage(Some(5), Some(0.5))
        };
        assert_eq!(both, expected);
        assert_eq!(both.max(usage(None, Some(0.25))), both);
        // A reported cost precedes an estimate, whichever is greater; a subscription costs nothing.
        let of = |cost_usd, basis| Usage {
            cost_usd,
            basis: Some(basis),
            ..Usage::default()
        };
        let estimated = of(Some(0.75), Basis::Estimated);
        let reported = of(Some(0.5), Basis::Known);
        assert_eq!(estimated.max(reported), reported);
        assert_eq!(reported.max(estimated), reported);
        assert_eq!(
            reported.max(of(None, Basis::Subscription)),
            of(None, Basis::Subscription)
        );
        let microusd = |usd| usage(None, Some(usd)).microusd();
        assert_eq!(microusd(0.000_000_1), 1);
        assert_eq!((microusd(f64::NAN), microusd(-1.0)), (0, 0));
        assert_eq!(microusd(f64::INFINITY), u64::MAX);
    }
}

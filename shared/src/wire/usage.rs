//! What sessions use, and how much of its run's limits each may use.

use serde::{Deserialize, Serialize};

use crate::ids::DispatchId;

/// What a session used. `None` is unknown, which is not zero.
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
    /// Tokens that its context held at most: as many were read or written, whatever else is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Cost in US dollars.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// The greater of each figure.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cached_tokens: self.cached_tokens.max(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.max(other.cache_write_tokens),
            context_tokens: self.context_tokens.max(other.context_tokens),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// The same once nothing more will be told: tokens that nobody told apart count as read.
    #[must_use]
    pub fn settled(self) -> Self {
        let unsaid = self
            .context_tokens
            .map(|tokens| tokens.saturating_sub(self.output_tokens.unwrap_or(0)));
        Self {
            input_tokens: self.input_tokens.max(unsaid),
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

    /// The cost in millionths of a US dollar, rounded up; 0 where it isn't known.
    #[must_use]
    pub fn microusd(&self) -> u64 {
        // A float beyond the range becomes the nearest number, and NaN becomes 0.
        self.cost_usd.map_or(0, |usd| (usd * 1e6).ceil() as u64)
    }
}

/// What a session may use of its run's limits of cost and tokens; `None` is no limit.
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
    /// Whether it limits nothing.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What a running dispatch used so far. No figure ever falls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Which one.
    pub dispatch: DispatchId,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// Whether half of its share is used, so that it needs more.
    #[serde(default)]
    pub asks: bool,
}

/// What a running dispatch may use by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which one.
    pub dispatch: DispatchId,
    /// All that it may use, with what it used already.
    pub share: Share,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_only_grow_and_nonsense_is_no_cost() {
        let usage = |input, cost_usd| Usage {
            input_tokens: input,
            cost_usd,
            ..Usage::default()
        };
        let both = usage(Some(5), None).max(usage(Some(3), Some(0.5)));
        assert_eq!(both, usage(Some(5), Some(0.5)));
        assert_eq!(both.max(usage(None, Some(0.25))), both);
        let microusd = |usd| usage(None, Some(usd)).microusd();
        assert_eq!(microusd(0.000_000_1), 1);
        assert_eq!((microusd(f64::NAN), microusd(-1.0)), (0, 0));
        assert_eq!(microusd(f64::INFINITY), u64::MAX);
    }
}

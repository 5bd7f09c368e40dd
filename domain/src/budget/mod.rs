//! Divides a run's cost and token limits between its sessions.
//!
//! A session gets a share when it is claimed, asks for more when half of it is used, and ends when it is used
//! up. The unused shares of live sessions are reserved, so all sessions together never exceed the limit.

pub mod estimate;
pub mod levels;
pub mod limit;

use ralph_shared::wire::{Share, Usage};

/// Smallest first share. Millionths of a US dollar.
pub(super) const SMALLEST_MICROUSD: i64 = 50_000;
/// The same in tokens.
pub(super) const SMALLEST_TOKENS: i64 = 20_000;
/// Divisor of a small limit that gives its smallest first share.
const SMALLEST_PART: i64 = 10;

/// Upper bound of a session's reported cost, so that an absurd value cannot overflow a run's sums.
const MOST_USD: f64 = 1e9;
/// Upper bound of a session's reported tokens.
const MOST_TOKENS: u64 = 1 << 40;

/// The usage that a worker reports, without absurd values.
pub fn bounded(usage: Usage) -> Usage {
    let tokens = |count: Option<u64>| count.map(|count| count.min(MOST_TOKENS));
    Usage {
        input_tokens: tokens(usage.input_tokens),
        output_tokens: tokens(usage.output_tokens),
        cached_tokens: tokens(usage.cached_tokens),
        cache_write_tokens: tokens(usage.cache_write_tokens),
        context_tokens: tokens(usage.context_tokens),
        cost_usd: usage
            .cost_usd
            .filter(|usd| *usd >= 0.0)
            .map(|usd| usd.min(MOST_USD)),
        basis: usage.basis,
    }
}

/// The first share when the usage of similar sessions is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstShare {
    /// Millionths of a US dollar.
    pub microusd: i64,
    /// Tokens read and written.
    pub tokens: i64,
}

impl Default for FirstShare {
    fn default() -> Self {
        Self {
            microusd: 1_000_000,
            tokens: 1_000_000,
        }
    }
}

/// Usual usage of similar sessions; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usual {
    /// Millionths of a US dollar.
    pub microusd: Option<i64>,
    /// Tokens read and written.
    pub tokens: Option<i64>,
}

/// A limit of a run and its rest, in one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pot {
    pub max: i64,
    /// The part that is neither used nor shared out; negative after an overrun.
    pub left: i64,
}

/// The rest of a run's limits; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purse {
    /// Millionths of a US dollar.
    pub microusd: Option<Pot>,
    /// Tokens read and written.
    pub tokens: Option<Pot>,
}

impl Pot {
    fn smallest(self, smallest: i64) -> i64 {
        smallest.min(self.max / SMALLEST_PART).max(1)
    }

    /// A first share: the usual usage, at most an equal part of the rest. A verification or integration may
    /// start with any rest of the limit.
    fn first(self, wanted: i64, smallest: i64, sessions: i64, follows_up: bool) -> Option<i64> {
        let smallest = self.smallest(smallest);
        if self.left <= 0 || self.left < smallest && !follows_up {
            return None;
        }
        let part = self.left / sessions.max(1);
        Some(wanted.min(part).max(smallest).min(self.left))
    }

    /// The extension of a share: half of the rest, at most a first share.
    fn more(self, first: i64, smallest: i64) -> i64 {
        (self.left / 2)
            .min(first)
            .max(self.smallest(smallest))
            .min(self.left)
            .max(0)
    }

    fn sessions(self, smallest: i64) -> i64 {
        self.left.max(0) / self.smallest(smallest)
    }
}

/// The smaller of two limits; `None` is no limit.
pub(crate) fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl Purse {
    /// The smaller rest, in each unit.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let least = |one: Option<Pot>, other: Option<Pot>| match (one, other) {
            (Some(one), Some(other)) => Some(if other.left < one.left { other } else { one }),
            (one, other) => one.or(other),
        };
        Self {
            microusd: least(self.microusd, other.microusd),
            tokens: least(self.tokens, other.tokens),
        }
    }

    /// The share of a new session while `sessions` may start; `None` when too little is left now.
    pub fn first_share(
        &self,
        usual: Usual,
        first: FirstShare,
        sessions: i64,
        follows_up: bool,
    ) -> Option<Share> {
        let give = |pot: Option<Pot>, wanted: i64, smallest| match pot {
            Some(pot) => pot.first(wanted, smallest, sessions, follows_up).map(Some),
            None => Some(None),
        };
        let microusd = usual.microusd.unwrap_or(first.microusd);
        let tokens = usual.tokens.unwrap_or(first.tokens);
        Some(Share {
            microusd: give(self.microusd, microusd, SMALLEST_MICROUSD)?.map(i64::cast_unsigned),
            tokens: give(self.tokens, tokens, SMALLEST_TOKENS)?.map(i64::cast_unsigned),
        })
    }

    /// The share of a live session with this usage. It grows when half is used and something is left.
    pub fn enlarged(&self, share: Share, (microusd, tokens): (u64, u64), first: FirstShare) -> Share {
        let enlarge = |pot: Option<Pot>, share: Option<u64>, used: u64, first, smallest| {
            let (pot, share) = (pot?, share?);
            let more = if used.saturating_mul(2) < share {
                0
            } else {
                pot.more(first, smallest)
            };
            // Usage beyond the share is real, so the new share starts above it.
            Some(if more > 0 {
                share.max(used) + more.cast_unsigned()
            } else {
                share
            })
        };
        Share {
            microusd: enlarge(
                self.microusd,
                share.microusd,
                microusd,
                first.microusd,
                SMALLEST_MICROUSD,
            ),
            tokens: enlarge(self.tokens, share.tokens, tokens, first.tokens, SMALLEST_TOKENS),
        }
    }

    /// Subtracts a share.
    pub fn give(&mut self, share: Share) {
        let take = |pot: &mut Option<Pot>, share: Option<u64>| {
            if let (Some(pot), Some(share)) = (pot, share) {
                pot.left = pot.left.saturating_sub(i64::try_from(share).unwrap_or(i64::MAX));
            }
        };
        take(&mut self.microusd, share.microusd);
        take(&mut self.tokens, share.tokens);
    }

    /// Maximum number of sessions that may start.
    pub fn sessions(&self) -> i64 {
        let of = |pot: Option<Pot>, smallest| pot.map_or(i64::MAX, |pot| pot.sessions(smallest));
        of(self.microusd, SMALLEST_MICROUSD).min(of(self.tokens, SMALLEST_TOKENS))
    }

    /// Whether some limit has no rest.
    pub fn is_empty(&self) -> bool {
        [self.microusd, self.tokens]
            .iter()
            .flatten()
            .any(|pot| pot.left <= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: FirstShare = FirstShare {
        microusd: 1_000_000,
        tokens: 1_000_000,
    };

    fn cost(max: i64, left: i64) -> Purse {
        Purse {
            microusd: Some(Pot { max, left }),
            tokens: None,
        }
    }

    #[test]
    fn absurd_usage_is_bounded_or_ignored() {
        let check = |cost_usd, expected| {
            let usage = Usage {
                input_tokens: Some(u64::MAX),
                cost_usd: Some(cost_usd),
                ..Usage::default()
            };
            let bounded = bounded(usage);
            assert_eq!(
                (bounded.cost_usd, bounded.input_tokens),
                (expected, Some(1 << 40)),
                "{cost_usd}"
            );
        };
        check(0.5, Some(0.5));
        check(-0.5, None);
        check(f64::NAN, None);
        check(f64::INFINITY, Some(1e9));
    }

    #[test]
    fn first_shares() {
        let check = |(max, left), usual, sessions, follows_up, expected: Option<u64>| {
            let usual = Usual {
                microusd: usual,
                tokens: None,
            };
            let share = cost(max, left).first_share(usual, FIRST, sessions, follows_up);
            let expected = expected.map(|microusd| Share {
                microusd: Some(microusd),
                tokens: None,
            });
            assert_eq!(share, expected, "{max} {left} {usual:?} {sessions}");
        };
        let usd = 1_000_000;
        // The usual usage, else the configured share.
        check((20 * usd, 20 * usd), Some(300_000), 4, false, Some(300_000));
        check((20 * usd, 20 * usd), None, 4, false, Some(1_000_000));
        // Of a small rest, an equal part, but never less than the smallest share, nor more than the rest.
        check((usd, usd), None, 4, false, Some(250_000));
        check((20 * usd, 120_000), None, 4, false, Some(50_000));
        check((20 * usd, 50_000), None, 1, false, Some(50_000));
        check((20 * usd, 49_999), None, 1, false, None);
        check((20 * usd, 0), None, 1, false, None);
        check((20 * usd, -5), None, 1, true, None);
        // A verification or integration may have the rest.
        check((20 * usd, 10), None, 1, true, Some(10));
        // A limit below the smallest share allows a session.
        check((1_000, 1_000), None, 2, false, Some(500));
        check((1, 1), None, 2, false, Some(1));
        let unlimited = Purse::default().first_share(Usual::default(), FIRST, 1, false);
        assert_eq!(unlimited, Some(Share::default()));
    }

    #[test]
    fn shares_grow_while_something_is_left() {
        let check = |left, share, used, expected| {
            let share = Share {
                microusd: Some(share),
                tokens: None,
            };
            let got = cost(20_000_000, left).enlarged(share, (used, 0), FIRST);
            assert_eq!(got.microusd, Some(expected), "{left} {share:?} {used}");
        };
        check(10_000_000, 1_000_000, 499_999, 1_000_000);
        check(10_000_000, 1_000_000, 500_000, 2_000_000);
        check(1_000_000, 1_000_000, 500_000, 1_500_000);
        check(60_000, 1_000_000, 500_000, 1_050_000);
        check(10, 1_000_000, 500_000, 1_000_010);
        check(0, 1_000_000, 1_000_000, 1_000_000);
        check(-5, 1_000_000, 1_200_000, 1_000_000);
        check(100_000, 1_000_000, 1_200_000, 1_250_000);
    }

    #[test]
    fn shares_together_never_exceed_the_limit() {
        let mut purse = cost(1_000_000, 1_000_000);
        let mut shares = Vec::new();
        while let Some(share) = purse.first_share(Usual::default(), FIRST, 3, false) {
            purse.give(share);
            shares.push(share);
        }
        for turn in 0..50 {
            let at = turn % shares.len();
            let before = shares[at];
            let after = purse.enlarged(before, (before.microusd.unwrap(), 0), FIRST);
            purse.give(Share {
                microusd: Some(after.microusd.unwrap() - before.microusd.unwrap()),
                tokens: None,
            });
            shares[at] = after;
        }
        let sum: u64 = shares.iter().filter_map(|share| share.microusd).sum();
        assert_eq!(sum, 1_000_000);
        assert!(purse.is_empty() && purse.sessions() == 0);
    }
}

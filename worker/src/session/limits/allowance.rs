//! What a session has used, and its share of the run's cost and tokens. The session reports usage; heartbeats
//! bring the share. A session ends itself when its share is used up, whether or not a coordinator can be
//! reached.

use parking_lot::{Mutex, MutexGuard};
use ralph_shared::wire::{SessionLimit, Share, Usage};
use tokio::sync::Notify;

/// Usage and share of one session, across all its processes.
#[derive(Debug, Default)]
pub struct Allowance {
    state: Mutex<State>,
    /// Wakes the task that requests a larger share.
    asks: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    used: Usage,
    share: Share,
    /// Usage when the share was granted.
    used_before: Usage,
}

impl Allowance {
    /// The allowance of a new session.
    pub fn new(share: Share) -> Self {
        Self {
            state: Mutex::new(State {
                share,
                ..State::default()
            }),
            asks: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sets the session's total usage. Figures never decrease.
    pub fn uses(&self, usage: Usage) {
        let mut state = self.state();
        let asked = state.needs_more();
        state.used = state.used.max(usage);
        if !asked && state.needs_more() {
            self.asks.notify_one();
        }
    }

    /// Current usage, and whether the session needs a larger share.
    pub fn used(&self) -> (Usage, bool) {
        let state = self.state();
        (state.used, state.needs_more())
    }

    /// Sets the session's total share. A grant never shrinks it.
    pub fn grant(&self, share: Share) {
        let mut state = self.state();
        let at_least = |before: Option<u64>, now: Option<u64>| Some(now?.max(before?));
        let share = Share {
            microusd: at_least(state.share.microusd, share.microusd),
            tokens: at_least(state.share.tokens, share.tokens),
        };
        if share != state.share {
            state.share = share;
            state.used_before = state.used;
        }
    }

    /// Ends the session: its usage stays, and it requests no more.
    pub fn close(&self) {
        self.state().share = Share::default();
    }

    /// The exhausted limit, if any.
    pub fn reached(&self) -> Option<SessionLimit> {
        let State { used, share, .. } = *self.state();
        if share.microusd.is_some_and(|most| used.microusd() >= most) {
            Some(SessionLimit::Cost)
        } else if share.tokens.is_some_and(|most| used.tokens() >= most) {
            Some(SessionLimit::Tokens)
        } else {
            None
        }
    }

    /// Waits until the session needs a larger share.
    pub async fn needs_more(&self) {
        self.asks.notified().await;
    }
}

impl State {
    /// Whether half of the amount left at the last grant is used.
    fn needs_more(&self) -> bool {
        let half = |share: Option<u64>, used: u64, before: u64| {
            share.is_some_and(|share| {
                used.saturating_sub(before).saturating_mul(2) >= share.saturating_sub(before)
            })
        };
        let (used, before) = (&self.used, &self.used_before);
        half(self.share.microusd, used.microusd(), before.microusd())
            || half(self.share.tokens, used.tokens(), before.tokens())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(usd: f64, tokens: u64) -> Usage {
        Usage {
            output_tokens: Some(tokens),
            cost_usd: Some(usd),
            ..Usage::default()
        }
    }

    #[test]
    fn a_session_asks_at_half_and_ends_at_its_share() {
        let allowance = Allowance::new(Share {
            microusd: Some(1_000_000),
            tokens: Some(100),
        });
        let check = |usd, tokens, asks, reached| {
            allowance.uses(usage(usd, tokens));
            assert_eq!(
                (allowance.used().1, allowance.reached()),
                (asks, reached),
                "{usd} {tokens}"
            );
        };
        check(0.25, 10, false, None);
        check(0.5, 10, true, None);
        allowance.grant(Share {
            microusd: Some(2_000_000),
            tokens: Some(200),
        });
        // Half of the rest at that time: of 1.5 and of 190.
        check(1.0, 10, false, None);
        check(1.25, 10, true, None);
        check(1.25, 200, true, Some(SessionLimit::Tokens));
        // A falling figure does not reduce usage.
        check(0.0, 0, true, Some(SessionLimit::Tokens));
        check(2.0, 200, true, Some(SessionLimit::Cost));
        // A grant cannot shrink the share.
        allowance.grant(Share {
            microusd: Some(1),
            tokens: None,
        });
        check(1.5, 10_000, true, Some(SessionLimit::Cost));
        allowance.close();
        check(1e9, 10_000, false, None);
    }

    #[test]
    fn invalid_costs_are_ignored_and_an_infinite_one_ends_the_session() {
        let allowance = Allowance::new(Share {
            microusd: Some(1_000),
            tokens: None,
        });
        for usd in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            allowance.uses(usage(usd, 0));
            assert_eq!(allowance.reached(), None, "{usd}");
        }
        allowance.uses(usage(f64::INFINITY, u64::MAX));
        assert_eq!(allowance.reached(), Some(SessionLimit::Cost));
    }
}

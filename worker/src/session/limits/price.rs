//! Cost of a session whose agent doesn't report it: from its tokens and its model's price, or estimated from
//! the texts it read and wrote.

use ralph_shared::agents::prices::{GUESSED, Price, Prices};
use ralph_shared::wire::{Basis, Usage};

const BYTES_OF_TOKEN: u64 = 4;

/// How a session is paid for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tariff {
    /// Prices that take precedence over the built-in ones.
    pub prices: Prices,
    /// Names of the chosen model, for an agent that doesn't report its model.
    pub models: Vec<String>,
    /// A subscription: nothing is paid per use.
    pub subscription: bool,
}

/// Bytes read and written by a session, as far as Ralph sees them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Texts {
    pub read: u64,
    /// Messages, thoughts and tool calls.
    pub wrote: u64,
}

impl Tariff {
    fn price(&self, model: Option<&str>) -> Option<Price> {
        match model {
            Some(model) => self.prices.of(model),
            None => self
                .models
                .iter()
                .find_map(|name| self.prices.of(name))
                .or_else(|| self.prices.of("")),
        }
    }

    /// Whether the price of a model is known.
    #[must_use]
    pub fn has_price(&self, model: Option<&str>) -> bool {
        self.price(model).is_some()
    }

    /// Adds the cost to reported usage. A zero cost beside other usage counts as unreported.
    #[must_use]
    pub fn with_cost(&self, reported: Usage, texts: Texts, model: Option<&str>) -> Usage {
        let with = |cost_usd, basis| Usage {
            cost_usd,
            basis,
            ..reported
        };
        if self.subscription {
            return with(None, Some(Basis::Subscription));
        }
        if let Some(usd) = reported.cost_usd.filter(|usd| *usd > 0.0) {
            return with(Some(usd), Some(Basis::Known));
        }
        if reported.tokens() == 0 && texts == Texts::default() {
            return with(None, None);
        }
        let price = self.price(model);
        let written = texts.wrote / BYTES_OF_TOKEN;
        let read = match reported.context_tokens {
            Some(tokens) => tokens.saturating_sub(reported.output_tokens.unwrap_or(written)),
            None => texts.read / BYTES_OF_TOKEN,
        };
        let basis = match (price, reported.input_tokens, reported.output_tokens) {
            (Some(_), Some(_), Some(_)) => Basis::Known,
            _ => Basis::Estimated,
        };
        let counted = Usage {
            input_tokens: reported.input_tokens.or(Some(read)),
            output_tokens: reported.output_tokens.or(Some(written)),
            ..reported
        };
        with(Some(price.unwrap_or(GUESSED).of(&counted)), Some(basis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tariff() -> Tariff {
        let price = Price {
            input: 1.0,
            output: 10.0,
            cache_read: None,
            cache_write: None,
        };
        Tariff {
            prices: Prices([("big".to_owned(), price)].into()),
            models: vec!["strong".to_owned(), "big-2".to_owned()],
            subscription: false,
        }
    }

    #[test]
    fn a_reported_cost_beats_a_computed_one_and_that_an_estimated_one() {
        let texts = Texts {
            read: 4_000_000,
            wrote: 400_000,
        };
        let check = |reported: Usage, texts, model, cost_usd: Option<f64>, basis| {
            let priced = tariff().with_cost(reported, texts, model);
            let close = match (priced.cost_usd, cost_usd) {
                (Some(one), Some(other)) => (one - other).abs() < 1e-9,
                (one, other) => one == other,
            };
            assert!(
                close && priced.basis == basis,
                "{reported:?} {model:?}: {priced:?}"
            );
        };
        let tokens = |input, output| Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        };
        let known = Some(Basis::Known);
        let estimated = Some(Basis::Estimated);
        let none = Usage::default();
        let reported = Usage {
            cost_usd: Some(0.5),
            ..tokens(Some(1_000_000), Some(1))
        };
        check(reported, texts, Some("big-2"), Some(0.5), known);
        check(reported, texts, Some("other"), Some(0.5), known);
        // A zero cost beside usage counts as unreported.
        let nothing = Usage {
            cost_usd: Some(0.0),
            ..tokens(Some(2_000_000), Some(100_000))
        };
        check(nothing, texts, Some("big-2"), Some(3.0), known);
        check(
            tokens(Some(2_000_000), Some(100_000)),
            texts,
            None,
            Some(3.0),
            known,
        );
        check(tokens(None, Some(200_000)), texts, None, Some(3.0), estimated);
        check(none, texts, Some("x/big"), Some(2.0), estimated);
        let context = Usage {
            context_tokens: Some(3_100_000),
            ..none
        };
        check(context, texts, Some("big"), Some(4.0), estimated);
        // A model of unknown price.
        check(none, texts, Some("other"), Some(4.5), estimated);
        let counted = tokens(Some(1_000_000), Some(1_000_000));
        check(counted, texts, Some("other"), Some(18.0), estimated);
        // Nothing was used yet.
        check(none, Texts::default(), Some("big"), None, None);
        let subscription = Tariff {
            subscription: true,
            ..tariff()
        };
        let priced = subscription.with_cost(reported, texts, Some("big"));
        assert_eq!((priced.cost_usd, priced.basis), (None, Some(Basis::Subscription)));
        assert_eq!(priced.input_tokens, reported.input_tokens);
    }
}

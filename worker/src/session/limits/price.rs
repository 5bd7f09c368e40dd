//! What a session costs whose agent doesn't tell: by its tokens and its model's price, or estimated from the texts that it read and wrote.

use ralph_shared::agents::prices::{GUESSED, Price, Prices};
use ralph_shared::wire::{Basis, Usage};

/// Bytes of a token, about.
const BYTES_OF_TOKEN: u64 = 4;

/// How a session is paid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tariff {
    /// Prices that go before the built-in ones.
    pub prices: Prices,
    /// Names of the model that was chosen, for an agent that doesn't say which one it works with.
    pub models: Vec<String>,
    /// Nothing is paid by use.
    pub subscription: bool,
}

/// Bytes that a session read and wrote, as far as they were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Texts {
    /// Prompts.
    pub read: u64,
    /// Messages, thoughts and calls of tools.
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

    /// Whether it is known what a model costs.
    #[must_use]
    pub fn has_price(&self, model: Option<&str>) -> bool {
        self.price(model).is_some()
    }

    /// What was used with its cost. A cost of nothing for something counts as not told.
    #[must_use]
    pub fn with_cost(&self, told: Usage, texts: Texts, model: Option<&str>) -> Usage {
        let with = |cost_usd, basis| Usage {
            cost_usd,
            basis,
            ..told
        };
        if self.subscription {
            return with(None, Some(Basis::Subscription));
        }
        if let Some(usd) = told.cost_usd.filter(|usd| *usd > 0.0) {
            return with(Some(usd), Some(Basis::Known));
        }
        if told.tokens() == 0 && texts == Texts::default() {
            return with(None, None);
        }
        let price = self.price(model);
        let written = texts.wrote / BYTES_OF_TOKEN;
        let read = match told.context_tokens {
            Some(tokens) => tokens.saturating_sub(told.output_tokens.unwrap_or(written)),
            None => texts.read / BYTES_OF_TOKEN,
        };
        let basis = match (price, told.input_tokens, told.output_tokens) {
            (Some(_), Some(_), Some(_)) => Basis::Known,
            _ => Basis::Estimated,
        };
        let counted = Usage {
            input_tokens: told.input_tokens.or(Some(read)),
            output_tokens: told.output_tokens.or(Some(written)),
            ..told
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
    fn what_is_told_goes_before_what_is_computed_and_that_before_an_estimate() {
        let texts = Texts {
            read: 4_000_000,
            wrote: 400_000,
        };
        let check = |told: Usage, texts, model, cost_usd: Option<f64>, basis| {
            let priced = tariff().with_cost(told, texts, model);
            let close = match (priced.cost_usd, cost_usd) {
                (Some(one), Some(other)) => (one - other).abs() < 1e-9,
                (one, other) => one == other,
            };
            assert!(close && priced.basis == basis, "{told:?} {model:?}: {priced:?}");
        };
        let tokens = |input, output| Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        };
        let known = Some(Basis::Known);
        let estimated = Some(Basis::Estimated);
        let none = Usage::default();
        let told = Usage {
            cost_usd: Some(0.5),
            ..tokens(Some(1_000_000), Some(1))
        };
        check(told, texts, Some("big-2"), Some(0.5), known);
        check(told, texts, Some("other"), Some(0.5), known);
        // Nothing for something is no cost.
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
        // A model without a price.
        check(none, texts, Some("other"), Some(4.5), estimated);
        let counted = tokens(Some(1_000_000), Some(1_000_000));
        check(counted, texts, Some("other"), Some(18.0), estimated);
        // Nothing was used yet.
        check(none, Texts::default(), Some("big"), None, None);
        let subscription = Tariff {
            subscription: true,
            ..tariff()
        };
        let priced = subscription.with_cost(told, texts, Some("big"));
        assert_eq!((priced.cost_usd, priced.basis), (None, Some(Basis::Subscription)));
        assert_eq!(priced.input_tokens, told.input_tokens);
    }
}

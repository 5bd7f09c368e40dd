//! Token prices of models: built-in list prices, and overrides from the coordinator's configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{Key, Reader, words};
use crate::wire::Usage;

/// The date of the built-in prices, which are the providers' list prices, without discounts, for prompts of
/// usual length.
pub const AS_OF: &str = "December 2025";

/// The key for models that no other key fits.
const ANY: &str = "*";

/// The price of a model without a known one: that of a strong model, so that a limit of cost ends its
/// sessions too.
pub const GUESSED: Price = Price::claude(3.0, 15.0);

/// Prices of a million tokens. US dollars. Cache tokens without a price of their own cost as much as input
/// tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens that the model reads.
    pub input: f64,
    /// Tokens that the model writes.
    pub output: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Tokens that are written into a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// The keys of `[prices.NAME]`.
    pub const KEYS: &[Key] = &[
        words("a built-in price, if there is one").key(
            "prices.NAME.input",
            Reader::Coordinator,
            "USD for a million tokens that model NAME reads, or any model whose name begins with NAME; * is for all others",
        ),
        words("a built-in price, if there is one").key(
            "prices.NAME.output",
            Reader::Coordinator,
            "The same for tokens that it writes",
        ),
        words("the price of other input tokens").key(
            "prices.NAME.cache_read",
            Reader::Coordinator,
            "The same for tokens that it reads from a cache",
        ),
        words("the price of other input tokens").key(
            "prices.NAME.cache_write",
            Reader::Coordinator,
            "The same for tokens that are written into a cache",
        ),
    ];
}

/// No price is NaN: the configuration refuses it, and JSON has none.
impl Eq for Price {}

impl Price {
    const fn new(input: f64, output: f64, cache_read: f64) -> Self {
        Self {
            input,
            output,
            cache_read: Some(cache_read),
            cache_write: None,
        }
    }

    /// Anthropic's prices, which include writes into a cache.
    const fn claude(input: f64, output: f64) -> Self {
        Self {
            input,
            output,
            cache_read: Some(input * 0.1),
            cache_write: Some(input * 1.25),
        }
    }

    /// The cost of these tokens. US dollars.
    #[must_use]
    pub fn of(&self, used: &Usage) -> f64 {
        let part = |count: Option<u64>, price: f64| count.unwrap_or(0) as f64 * price / 1e6;
        part(used.input_tokens, self.input)
            + part(used.output_tokens, self.output)
            + part(used.cached_tokens, self.cache_read.unwrap_or(self.input))
            + part(used.cache_write_tokens, self.cache_write.unwrap_or(self.input))
    }
}

/// US dollars for people, without the unit: `0.42`, `~0.42` if some of it is estimated, `0.0042` below a
/// cent.
#[must_use]
pub fn usd_text(usd: f64, estimated: bool) -> String {
    let about = if estimated { "~" } else { "" };
    match usd {
        small if small > 0.0 && small < 0.01 => format!("{about}{small:.4}"),
        _ => format!("{about}{:.2}", usd + 0.0),
    }
}

/// Names of models, or their beginnings, in lower case.
const BUILT_IN: &[(&str, Price)] = &[
    ("claude-opus-4-5", Price::claude(5.0, 25.0)),
    ("claude-opus-4", Price::claude(15.0, 75.0)),
    ("claude-opus", Price::claude(5.0, 25.0)),
    ("claude-sonnet", Price::claude(3.0, 15.0)),
    ("claude-haiku", Price::claude(1.0, 5.0)),
    ("claude-3-7-sonnet", Price::claude(3.0, 15.0)),
    ("claude-3-5-haiku", Price::claude(0.8, 4.0)),
    // As Claude Code names them.
    ("opus", Price::claude(5.0, 25.0)),
    ("sonnet", Price::claude(3.0, 15.0)),
    ("haiku", Price::claude(1.0, 5.0)),
    ("gpt-5.2-pro", Price::new(21.0, 168.0, 21.0)),
    ("gpt-5.2", Price::new(1.75, 14.0, 0.175)),
    ("gpt-5.1-codex-mini", Price::new(0.25, 2.0, 0.025)),
    ("gpt-5.1", Price::new(1.25, 10.0, 0.125)),
    ("gpt-5-pro", Price::new(15.0, 120.0, 15.0)),
    ("gpt-5-codex-mini", Price::new(0.25, 2.0, 0.025)),
    ("gpt-5-mini", Price::new(0.25, 2.0, 0.025)),
    ("gpt-5-nano", Price::new(0.05, 0.4, 0.005)),
    ("gpt-5", Price::new(1.25, 10.0, 0.125)),
    ("gpt-4.1-mini", Price::new(0.4, 1.6, 0.1)),
    ("gpt-4.1", Price::new(2.0, 8.0, 0.5)),
    ("o4-mini", Price::new(1.1, 4.4, 0.275)),
    ("o3", Price::new(2.0, 8.0, 0.5)),
    ("gemini-3-pro", Price::new(2.0, 12.0, 0.2)),
    ("gemini-3-flash", Price::new(0.5, 3.0, 0.05)),
    ("gemini-2.5-pro", Price::new(1.25, 10.0, 0.125)),
    ("gemini-2.5-flash-lite", Price::new(0.1, 0.4, 0.01)),
    ("gemini-2.5-flash", Price::new(0.3, 2.5, 0.03)),
    ("qwen3-coder-flash", Price::new(0.3, 1.5, 0.06)),
    ("qwen3-coder", Price::new(1.0, 5.0, 0.2)),
    ("qwen3-max", Price::new(1.2, 6.0, 0.24)),
    ("mistral-large", Price::new(0.5, 1.5, 0.5)),
    ("mistral-medium", Price::new(0.4, 2.0, 0.4)),
    ("mistral-small", Price::new(0.1, 0.3, 0.1)),
    ("devstral-small", Price::new(0.1, 0.3, 0.1)),
    ("devstral", Price::new(0.4, 2.0, 0.4)),
    ("codestral", Price::new(0.3, 0.9, 0.3)),
    ("kimi-k2-turbo", Price::new(1.15, 8.0, 0.15)),
    ("kimi-k2-thinking", Price::new(0.6, 2.5, 0.15)),
    ("kimi-k2", Price::new(0.6, 2.5, 0.15)),
    ("deepseek", Price::new(0.28, 0.42, 0.028)),
    ("glm-4", Price::new(0.6, 2.2, 0.11)),
    ("grok-code-fast", Price::new(0.2, 1.5, 0.02)),
];

/// Prices that override the built-in ones, by names of models or their beginnings; `*` is for all others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(pub BTreeMap<String, Price>);

impl Prices {
    /// Whether only the built-in prices apply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same prices with names in lower case.
    ///
    /// # Errors
    /// If a price is negative or not a number; the text names the model and the key.
    pub fn checked(self) -> Result<Self, String> {
        let checked = self.0.into_iter().map(|(model, price)| {
            let bad = [
                ("input", Some(price.input)),
                ("output", Some(price.output)),
                ("cache_read", price.cache_read),
                ("cache_write", price.cache_write),
            ]
            .into_iter()
            .find(|(_, usd)| usd.is_some_and(|usd| !usd.is_finite() || usd < 0.0));
            match bad {
                Some((key, _)) => Err(format!(
                    "prices.{model}.{key} is USD for a million tokens, 0 or more"
                )),
                None => Ok((model.to_lowercase(), price)),
            }
        });
        checked.collect::<Result<_, _>>().map(Self)
    }

    /// The price of a model: that of the longest name that the model has or begins with, with its provider
    /// (`openai/gpt-5`) or without.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<Price> {
        let model = model.to_lowercase();
        let parts = || {
            let slashes = model.match_indices('/').map(|(at, _)| at + 1);
            std::iter::once(0).chain(slashes).map(|at| &model[at..])
        };
        let fits = |name: &str| {
            parts().any(|part| {
                part.strip_prefix(name)
                    .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            })
        };
        let own = self.0.iter().map(|(name, price)| (name.as_str(), price));
        let longest = |(name, price): (&str, &Price)| (name.len(), *price);
        let best = |found: Option<(usize, Price)>| found.map(|(_, price)| price);
        best(
            own.filter(|(name, _)| fits(name))
                .map(longest)
                .max_by_key(|(len, _)| *len),
        )
        .or_else(|| {
            let known = BUILT_IN.iter().map(|(name, price)| (*name, price));
            best(
                known
                    .filter(|(name, _)| fits(name))
                    .map(longest)
                    .max_by_key(|(len, _)| *len),
            )
        })
        .or_else(|| self.0.get(ANY).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_matching_name_gives_the_price() {
        let own = Price::new(7.0, 70.0, 0.7);
        let check = |prices: &Prices, model: &str, input: Option<f64>| {
            assert_eq!(prices.of(model).map(|price| price.input), input, "{model}");
        };
        let none = Prices::default();
        check(&none, "claude-opus-4-5-20251101", Some(5.0));
        check(&none, "claude-opus-4-1-20250805", Some(15.0));
        check(&none, "anthropic/claude-sonnet-4-5", Some(3.0));
        check(&none, "openrouter/openai/GPT-5-mini", Some(0.25));
        check(&none, "gpt-5-codex/high", Some(1.25));
        check(&none, "gpt-5.1-codex-max", Some(1.25));
        check(&none, "gemini-2.5-flash-lite", Some(0.1));
        check(&none, "devstral-2512", Some(0.4));
        // Neither a part of another word nor a guess.
        check(&none, "gpt-50", None);
        check(&none, "claude-opusculum", None);
        check(&none, "default", None);
        check(&none, "", None);
        let prices = Prices(
            [
                ("GPT-5".to_owned(), own),
                ("*".to_owned(), Price::new(1.0, 1.0, 1.0)),
            ]
            .into(),
        );
        let prices = prices.checked().unwrap();
        check(&prices, "gpt-5-mini", Some(7.0));
        check(&prices, "some-model", Some(1.0));
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let used = Usage {
            input_tokens: Some(1_000_000),
            output_tokens: Some(100_000),
            cached_tokens: Some(2_000_000),
            cache_write_tokens: Some(200_000),
            ..Usage::default()
        };
        let sonnet = Prices::default().of("claude-sonnet-4-5").unwrap();
        assert!((sonnet.of(&used) - (3.0 + 1.5 + 0.6 + 0.75)).abs() < 1e-9);
        let plain: Price = serde_json::from_str(r#"{"input": 1, "output": 2}"#).unwrap();
        assert!((plain.of(&used) - (1.0 + 0.2 + 2.0 + 0.2)).abs() < 1e-9);
    }

    #[test]
    fn an_invalid_price_is_refused() {
        for usd in [-1.0, f64::NAN, f64::INFINITY] {
            let prices = Prices([("m".to_owned(), Price::new(1.0, usd, 0.0))].into());
            assert_eq!(
                prices.checked(),
                Err("prices.m.output is USD for a million tokens, 0 or more".to_owned())
            );
        }
    }

    #[test]
    fn built_in_prices_are_sound() {
        for (name, price) in BUILT_IN {
            assert_eq!(*name, name.to_lowercase());
            assert!(price.input > 0.0 && price.output >= price.input, "{name}");
            assert!(
                price.cache_read.is_some_and(|cached| cached <= price.input),
                "{name}"
            );
        }
    }
}

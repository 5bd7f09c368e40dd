//! `[shares]` of `.ralph.toml`: a session's first share of its run's limits, where no similar session gives
//! an estimate.

use ralph_shared::config::toml;
use ralph_shared::config_table;
use serde::Deserialize;

use ralph_domain::budget::FirstShare;

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["shares", Coordinator]
    pub struct Shares {
        /// First cost share of a session without similar predecessors, in USD
        first_cost: Option<f64> = toml("1.0"),
        /// First token share of a session without similar predecessors
        first_tokens: Option<i64> = toml("1000000"),
    }
}

impl Shares {
    pub fn checked(&self) -> anyhow::Result<FirstShare> {
        let mut first = FirstShare::default();
        if let Some(usd) = self.first_cost {
            anyhow::ensure!(
                (0.01..=1e6).contains(&usd),
                "shares.first_cost is a cost in USD, 0.01 or more, not {usd}"
            );
            first.microusd = ralph_domain::run::microusd(usd);
        }
        if let Some(tokens) = self.first_tokens {
            anyhow::ensure!(
                tokens > 0,
                "shares.first_tokens is a number of tokens, 1 or more, not {tokens}"
            );
            first.tokens = tokens;
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::Config;
    use ralph_domain::budget::FirstShare;

    #[test]
    fn first_shares_must_be_above_zero() {
        let first = |text: &str| {
            let (config, unknown) = Config::parse(text).unwrap();
            assert_eq!(unknown, Vec::<String>::new());
            config.shares.checked()
        };
        assert_eq!(first("").unwrap(), FirstShare::default());
        let given = first("[shares]\nfirst_cost = 0.25\nfirst_tokens = 5000\n").unwrap();
        assert_eq!((given.microusd, given.tokens), (250_000, 5_000));
        for key in ["first_cost", "first_tokens"] {
            let error = first(&format!("[shares]\n{key} = 0")).unwrap_err().to_string();
            assert!(error.contains(&format!("shares.{key}")), "{error}");
        }
    }
}

//! What runs cost, in words: what ended and what is in flight, beside the limit.

use crate::store::view::{FeatureView, RunView};

/// Of a run whose agents don't tell what they cost.
const UNKNOWN: &str = "cost unknown";

/// What all runs of a feature cost, for a column: `0.42 + 0.10 in flight`.
pub fn of_feature(feature: &FeatureView) -> String {
    let spent = spent(feature.cost_usd, feature.in_flight_usd);
    match &feature.run {
        None => String::new(),
        Some(run) if !run.cost_known && feature.cost_usd <= 0.0 => "unknown".to_owned(),
        Some(_) => spent,
    }
}

/// What a run cost: `0.42 + 0.10 in flight of 1.00 USD`.
pub fn of_run(run: &RunView) -> String {
    if !run.cost_known {
        return UNKNOWN.to_owned();
    }
    let (usd, in_flight_usd) = (run.cost_usd, run.in_flight.cost_usd);
    match run.limits.cost_usd.filter(|_| run.outcome.is_none()) {
        Some(limit) => format!("{} of {limit:.2} USD", spent(usd, in_flight_usd)),
        None => spent_usd(usd, in_flight_usd),
    }
}

/// The same for a column that tells the limit itself.
pub fn spent_by(run: &RunView) -> String {
    if run.cost_known {
        spent(run.cost_usd, run.in_flight.cost_usd)
    } else {
        "unknown".to_owned()
    }
}

/// A cost and what is in flight beside it, without the unit: `0.42 + 0.10 in flight`.
pub fn spent(usd: f64, in_flight_usd: f64) -> String {
    if in_flight_usd > 0.0 {
        format!("{usd:.2} + {in_flight_usd:.2} in flight")
    } else {
        format!("{usd:.2}")
    }
}

/// The same with the unit: `0.42 USD + 0.10 USD in flight`.
pub fn spent_usd(usd: f64, in_flight_usd: f64) -> String {
    if in_flight_usd > 0.0 {
        format!("{usd:.2} USD + {in_flight_usd:.2} USD in flight")
    } else {
        format!("{usd:.2} USD")
    }
}

/// Tokens that a run used, beside its limit: `1200 tokens in and 300 out, 500 in flight, of 10000`.
pub fn tokens_of_run(run: &RunView) -> String {
    let mut words = format!("{} tokens in and {} out", run.input_tokens, run.output_tokens);
    if run.in_flight.tokens > 0 {
        words.push_str(&format!(", {} in flight", run.in_flight.tokens));
    }
    if let Some(limit) = run.limits.tokens {
        words.push_str(&format!(", of {limit}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_stands_beside_what_ended() {
        assert_eq!(spent(0.42, 0.1), "0.42 + 0.10 in flight");
        assert_eq!(spent(0.42, 0.0), "0.42");
        assert_eq!(spent_usd(0.42, 0.1), "0.42 USD + 0.10 USD in flight");
        assert_eq!(spent_usd(0.42, 0.0), "0.42 USD");
    }
}

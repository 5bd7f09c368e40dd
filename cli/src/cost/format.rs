//! Costs of runs in words: ended sessions and those in flight, beside the limit.

use ralph_shared::agents::prices::usd_text;
use ralph_shared::wire::Basis;

use ralph_api::view::{DispatchView, FeatureView, RunView};

/// For a run whose cost neither its agents report nor prices give.
const UNKNOWN: &str = "cost unknown";
/// For a run without pay-per-use sessions.
const SUBSCRIPTION: &str = "subscription";

/// Cost of all runs of a feature, for a column: `0.42 + 0.10 in flight`; `~0.42` where some of it is
/// estimated.
pub fn of_feature(feature: &FeatureView) -> String {
    match &feature.run {
        None => String::new(),
        Some(run) if feature.cost_usd + feature.in_flight_usd <= 0.0 => spent_by(run),
        Some(_) => spent(feature.cost_usd, feature.in_flight_usd, feature.estimated),
    }
}

/// Cost of a run: `~0.42 + 0.10 in flight of 1.00 USD`.
pub fn of_run(run: &RunView) -> String {
    if run.subscription {
        return SUBSCRIPTION.to_owned();
    }
    if !run.cost_known {
        return UNKNOWN.to_owned();
    }
    let (usd, in_flight_usd) = (run.cost_usd, run.in_flight.cost_usd);
    match run.limits.cost_usd.filter(|_| run.outcome.is_none()) {
        Some(limit) => format!("{} of {limit:.2} USD", spent(usd, in_flight_usd, run.estimated)),
        None => spent_usd(usd, in_flight_usd, run.estimated),
    }
}

/// Cost of a run without its limit.
pub fn spent_by(run: &RunView) -> String {
    if run.subscription {
        SUBSCRIPTION.to_owned()
    } else if run.cost_known {
        spent(run.cost_usd, run.in_flight.cost_usd, run.estimated)
    } else {
        "unknown".to_owned()
    }
}

/// Cost of a session, if known.
pub fn of_session(session: &DispatchView) -> Option<String> {
    let basis = session.cost_basis.as_deref().and_then(Basis::of);
    match (session.cost_usd, basis) {
        (Some(usd), basis) => Some(format!("{} USD", usd_text(usd, basis == Some(Basis::Estimated)))),
        (None, Some(Basis::Subscription)) => Some(SUBSCRIPTION.to_owned()),
        (None, _) => None,
    }
}

/// A cost and the cost in flight, without the unit: `0.42 + 0.10 in flight`.
pub fn spent(usd: f64, in_flight_usd: f64, estimated: bool) -> String {
    let usd = usd_text(usd, estimated);
    if in_flight_usd > 0.0 {
        format!("{usd} + {} in flight", usd_text(in_flight_usd, false))
    } else {
        usd
    }
}

/// A cost and the cost in flight, with the unit: `0.42 USD + 0.10 USD in flight`.
pub fn spent_usd(usd: f64, in_flight_usd: f64, estimated: bool) -> String {
    let usd = usd_text(usd, estimated);
    if in_flight_usd > 0.0 {
        format!("{usd} USD + {} USD in flight", usd_text(in_flight_usd, false))
    } else {
        format!("{usd} USD")
    }
}

/// Tokens of a run and their limit: `1200 tokens in and 300 out, 500 in flight, of 10000`.
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
    fn cost_in_flight_is_shown_beside_the_spent_cost() {
        assert_eq!(spent(0.42, 0.1, false), "0.42 + 0.10 in flight");
        assert_eq!(spent(0.42, 0.1, true), "~0.42 + 0.10 in flight");
        assert_eq!(spent(0.42, 0.0, false), "0.42");
        assert_eq!(spent_usd(0.42, 0.1, false), "0.42 USD + 0.10 USD in flight");
        assert_eq!(spent_usd(0.42, 0.0, true), "~0.42 USD");
    }
}

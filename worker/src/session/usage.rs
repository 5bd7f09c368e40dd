//! What a session used, from wherever an agent puts it. What nobody says stays unknown, which is not zero.

use ralph_shared::wire::Usage;
use serde_json::Value;

/// How deep numbers are looked for.
const DEPTH: usize = 4;

/// Reads the answer to a prompt: its `usage`, and what agents put into `_meta` instead.
pub fn of_answer(answer: &Value) -> Usage {
    let mut usage = Usage::default();
    for place in ["_meta", "usage"] {
        if let Some(value) = answer.get(place) {
            merge(&mut usage, read(value));
        }
    }
    usage
}

/// The newer figures win, where there are any.
pub fn merge(usage: &mut Usage, newer: Usage) {
    usage.input_tokens = newer.input_tokens.or(usage.input_tokens);
    usage.output_tokens = newer.output_tokens.or(usage.output_tokens);
    usage.cached_tokens = newer.cached_tokens.or(usage.cached_tokens);
    usage.cost_usd = newer.cost_usd.or(usage.cost_usd);
}

/// What a session used that two processes worked on. One that counts on from where the first ended says at least as much
/// as it; one that says less began at zero.
pub fn add_up(before: &Usage, after: &Usage) -> Usage {
    fn sum<T: PartialOrd + std::ops::Add<Output = T> + Copy>(
        before: Option<T>,
        after: Option<T>,
    ) -> Option<T> {
        match (before, after) {
            (Some(before), Some(after)) if after < before => Some(before + after),
            (before, after) => after.or(before),
        }
    }
    Usage {
        input_tokens: sum(before.input_tokens, after.input_tokens),
        output_tokens: sum(before.output_tokens, after.output_tokens),
        cached_tokens: sum(before.cached_tokens, after.cached_tokens),
        cost_usd: sum(before.cost_usd, after.cost_usd),
    }
}

/// A cost, if it is one and in US dollars.
pub fn dollars(amount: f64, currency: &str) -> Option<f64> {
    (amount.is_finite() && amount >= 0.0 && currency.eq_ignore_ascii_case("usd")).then_some(amount)
}

/// In words for the transcript.
pub fn words(usage: &Usage) -> String {
    let tokens = |count: Option<u64>, what| count.map(|count| format!("{count} tokens {what}"));
    [
        tokens(usage.input_tokens, "in"),
        tokens(usage.output_tokens, "out"),
        tokens(usage.cached_tokens, "cached"),
        usage.cost_usd.map(|cost| format!("{cost:.4} USD")),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

fn read(value: &Value) -> Usage {
    let tokens = |names: &[&str]| find(value, names, DEPTH).and_then(Value::as_u64);
    Usage {
        input_tokens: tokens(&["inputtokens", "prompttokens", "prompttokencount"]),
        output_tokens: tokens(&["outputtokens", "completiontokens", "candidatestokencount"]),
        cached_tokens: tokens(&[
            "cachedreadtokens",
            "cachereadinputtokens",
            "cachereadtokens",
            "cachedinputtokens",
            "cachedtokens",
            "cachedcontenttokencount",
        ]),
        cost_usd: find(value, &["totalcostusd", "costusd"], DEPTH)
            .and_then(Value::as_f64)
            .and_then(|cost| dollars(cost, "usd")),
    }
}

/// The first number under one of the names (lower case, without separators), the shallowest object first.
fn find<'a>(value: &'a Value, names: &[&str], depth: usize) -> Option<&'a Value> {
    let object = value.as_object()?;
    let plain = |key: &str| key.replace(['_', '-'], "").to_lowercase();
    let here = object
        .iter()
        .find(|(key, value)| value.is_number() && names.contains(&plain(key).as_str()))
        .map(|(_, value)| value);
    here.or_else(|| {
        (depth > 0)
            .then(|| object.values().find_map(|value| find(value, names, depth - 1)))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_found_where_agents_put_them() {
        let check = |answer: Value, input, output, cached, cost| {
            let expected = Usage {
                input_tokens: input,
                output_tokens: output,
                cached_tokens: cached,
                cost_usd: cost,
            };
            assert_eq!(of_answer(&answer), expected, "{answer}");
        };
        check(json!({ "stopReason": "end_turn" }), None, None, None, None);
        check(
            json!({ "usage": { "inputTokens": 5, "outputTokens": 7, "totalTokens": 12, "cachedReadTokens": 0 } }),
            Some(5),
            Some(7),
            Some(0),
            None,
        );
        check(
            json!({ "_meta": { "quota": { "token_count": { "input_tokens": 3, "output_tokens": 4 }, "model_usage": [] } } }),
            Some(3),
            Some(4),
            None,
            None,
        );
        check(
            json!({ "usage": { "inputTokens": 5 }, "_meta": { "inputTokens": 9, "total_cost_usd": 0.25 } }),
            Some(5),
            None,
            None,
            Some(0.25),
        );
        check(
            json!({ "usage": { "inputTokens": -1, "outputTokens": "7" } }),
            None,
            None,
            None,
            None,
        );
        check(json!({ "usage": 5, "_meta": null }), None, None, None, None);
    }

    #[test]
    fn only_dollars_count_as_dollars() {
        assert_eq!(dollars(1.5, "USD"), Some(1.5));
        assert_eq!(dollars(1.5, "EUR"), None);
        assert_eq!(dollars(f64::NAN, "USD"), None);
        assert_eq!(dollars(-1.0, "USD"), None);
    }
}

//! Usage of a session, from wherever an agent reports it. Unreported figures stay unknown, which is not zero.

use ralph_shared::agents::prices::usd_text;
use ralph_shared::wire::Usage;
use serde_json::Value;

use crate::session::limits::price::Texts;

/// How deep in a response to search for numbers.
const DEPTH: usize = 4;

/// Usage of a session so far, across all its processes and turns.
///
/// The protocol specifies sums over all turns, but some agents count each turn's tokens from zero. A second
/// process may or may not continue the first one's counts. In doubt money is counted twice rather than left
/// out.
#[derive(Debug, Default)]
pub struct Meter {
    /// Usage of earlier processes.
    before: Usage,
    tokens: Tokens,
    /// The most tokens in the process's context since its prompt.
    context: Option<u64>,
    /// Cost reported in session updates.
    updated: Cost,
    /// Cost reported in responses to prompts.
    answered: Cost,
    /// Whether this process got a prompt.
    prompted: bool,
    /// Bytes read and written by all processes.
    texts: Texts,
}

impl Meter {
    /// Starts counting for another process of the session.
    pub fn begin_process(&mut self) {
        *self = Self {
            before: self.total(),
            texts: self.texts,
            ..Self::default()
        };
    }

    /// Records a prompt: usage reported from here on is this process's own.
    pub fn prompted(&mut self, prompt: &str) {
        self.prompted = true;
        self.texts.read += prompt.len() as u64;
    }

    /// Records model output of the process.
    pub fn wrote(&mut self, bytes: usize) {
        self.texts.wrote += bytes as u64;
    }

    pub fn texts(&self) -> Texts {
        self.texts
    }

    /// Takes the context tokens of an update. Tokens before the prompt belong to an earlier process.
    pub fn context(&mut self, tokens: u64) {
        if self.prompted && tokens <= MOST_TOKENS {
            self.context = self.context.max(Some(tokens));
        }
    }

    /// Takes the cost of an update. A resumed process that reports a cost before its prompt reports the
    /// earlier process's cost.
    pub fn update(&mut self, cost_usd: f64) {
        if self.before.cost_usd.is_some() && !self.prompted {
            self.continue_from(cost_usd);
        } else {
            self.updated.update(cost_usd);
        }
    }

    /// Sets the session's cost from which the process continues counting.
    pub fn continue_from(&mut self, cost_usd: f64) {
        self.before.cost_usd = self.before.cost_usd.map(|before| before.max(cost_usd));
        self.updated = Cost {
            settled: 0.0,
            base: cost_usd,
            newest: Some(cost_usd),
        };
    }

    /// Discards a cost that was replayed from an earlier session.
    pub fn discard_replayed(&mut self) {
        self.updated = Cost::default();
    }

    /// Adds the figures of a response to a prompt.
    pub fn add_response(&mut self, usage: Usage) {
        self.tokens.update([
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
        ]);
        if let Some(cost) = usage.cost_usd {
            self.answered.update(cost);
        }
    }

    pub fn total(&self) -> Usage {
        let [input, output, cached, cache_write] = self.tokens.used();
        let cost = match (self.updated.used(), self.answered.used()) {
            (Some(updated), Some(answered)) => Some(updated.max(answered)),
            (updated, answered) => updated.or(answered),
        };
        Usage {
            input_tokens: both(self.before.input_tokens, input, u64::saturating_add),
            output_tokens: both(self.before.output_tokens, output, u64::saturating_add),
            cached_tokens: both(self.before.cached_tokens, cached, u64::saturating_add),
            cache_write_tokens: both(self.before.cache_write_tokens, cache_write, u64::saturating_add),
            context_tokens: both(self.before.context_tokens, self.context, u64::saturating_add),
            cost_usd: both(self.before.cost_usd, cost, |before, cost| before + cost),
            basis: None,
        }
    }
}

/// Tokens read, written, read from a cache and written to one, from the responses of one process.
#[derive(Debug, Default)]
struct Tokens {
    sum: [Option<u64>; 4],
    most: [Option<u64>; 4],
    newest: [Option<u64>; 4],
    /// Whether each turn counts from zero, because a figure fell.
    anew: bool,
}

impl Tokens {
    fn update(&mut self, counts: [Option<u64>; 4]) {
        for (at, count) in counts.into_iter().enumerate() {
            // An aborted turn may report zeros.
            let fell = |newest| count.is_some_and(|count| 0 < count && count < newest);
            self.anew |= self.newest[at].is_some_and(fell);
            self.sum[at] = both(self.sum[at], count, u64::saturating_add);
            self.most[at] = self.most[at].max(count);
            self.newest[at] = count.or(self.newest[at]);
        }
    }

    fn used(&self) -> [Option<u64>; 4] {
        if self.anew { self.sum } else { self.most }
    }
}

/// A cost that one process reports as a running sum. US dollars.
#[derive(Debug, Default)]
struct Cost {
    /// Cost before the sum restarted.
    settled: f64,
    /// The sum before the process used anything.
    base: f64,
    newest: Option<f64>,
}

impl Cost {
    fn update(&mut self, sum: f64) {
        if let Some(newest) = self.newest.filter(|newest| sum < *newest) {
            self.settled += newest - self.base;
            self.base = 0.0;
        }
        self.newest = Some(sum);
    }

    fn used(&self) -> Option<f64> {
        self.newest.map(|newest| self.settled + newest - self.base)
    }
}

/// Combines two figures. An unknown one counts as nothing.
fn both<T>(one: Option<T>, other: Option<T>, add: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(add(one, other)),
        (one, other) => one.or(other),
    }
}

/// Reads usage from a response to a prompt: from `usage`, and from `_meta`, where some agents put it.
pub fn of_response(answer: &Value) -> Usage {
    let mut usage = Usage::default();
    for place in ["_meta", "usage"] {
        if let Some(value) = answer.get(place) {
            merge(&mut usage, read(value));
        }
    }
    usage
}

/// Newer figures replace older ones.
fn merge(usage: &mut Usage, newer: Usage) {
    usage.input_tokens = newer.input_tokens.or(usage.input_tokens);
    usage.output_tokens = newer.output_tokens.or(usage.output_tokens);
    usage.cached_tokens = newer.cached_tokens.or(usage.cached_tokens);
    usage.cache_write_tokens = newer.cache_write_tokens.or(usage.cache_write_tokens);
    usage.cost_usd = newer.cost_usd.or(usage.cost_usd);
}

/// More tokens than a session reads or writes in days. A larger figure is nonsense and counts as unreported.
const MOST_TOKENS: u64 = 1_000_000_000;

/// More than a session can cost. The bound keeps nonsense from overflowing sums.
const MOST_USD: f64 = 1e9;

/// A cost if it is valid and in US dollars.
pub fn dollars(amount: f64, currency: &str) -> Option<f64> {
    (amount.is_finite() && amount >= 0.0 && currency.eq_ignore_ascii_case("usd"))
        .then_some(amount.min(MOST_USD))
}

/// Text for the transcript.
pub fn words(usage: &Usage) -> String {
    let tokens = |count: Option<u64>, what| count.map(|count| format!("{count} tokens {what}"));
    [
        tokens(usage.input_tokens, "in"),
        tokens(usage.output_tokens, "out"),
        tokens(usage.cached_tokens, "cached"),
        usage
            .cost_usd
            .map(|usd| format!("{} USD", usd_text(usd, usage.is_estimated()))),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

fn read(value: &Value) -> Usage {
    let tokens = |names: &[&str]| {
        find(value, names, DEPTH)
            .and_then(Value::as_u64)
            .filter(|count| *count <= MOST_TOKENS)
    };
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
        cache_write_tokens: tokens(&[
            "cachedwritetokens",
            "cachecreationinputtokens",
            "cachewriteinputtokens",
            "cachewritetokens",
        ]),
        cost_usd: find(value, &["totalcostusd", "costusd"], DEPTH)
            .and_then(Value::as_f64)
            .and_then(|cost| dollars(cost, "usd")),
        ..Usage::default()
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
    fn usage_is_read_from_usage_and_meta_fields() {
        let check = |answer: Value, input, output, cached, cost| {
            let expected = Usage {
                input_tokens: input,
                output_tokens: output,
                cached_tokens: cached,
                cost_usd: cost,
                ..Usage::default()
            };
            assert_eq!(of_response(&answer), expected, "{answer}");
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
    fn tokens_are_summed_if_turns_count_from_zero() {
        let check = |turns: &[(u64, u64)], input, output| {
            let mut meter = Meter::default();
            for (input, output) in turns {
                meter.add_response(Usage {
                    input_tokens: Some(*input),
                    output_tokens: Some(*output),
                    ..Usage::default()
                });
            }
            let total = meter.total();
            let expected = (Some(input), Some(output), None);
            let got = (total.input_tokens, total.output_tokens, total.cached_tokens);
            assert_eq!(got, expected, "{turns:?}");
        };
        check(&[(100, 10)], 100, 10);
        // Running sums over all turns.
        check(&[(100, 10), (120, 15), (120, 15)], 120, 15);
        // Each turn counts for itself.
        check(&[(100, 10), (20, 5)], 120, 15);
        check(&[(100, 10), (150, 4), (200, 20)], 450, 34);
        check(&[(100, 10), (0, 0)], 100, 10);
    }

    #[test]
    fn cost_of_two_processes_is_never_too_low() {
        use CostEvent::*;
        enum CostEvent {
            Update(f64),
            Prompt,
            Process,
            Again(f64),
        }
        let check = |events: &[CostEvent], expected: f64| {
            let mut meter = Meter::default();
            for event in events {
                match event {
                    Update(cost) => meter.update(*cost),
                    Prompt => meter.prompted(""),
                    Process => meter.begin_process(),
                    Again(cost) => {
                        meter.continue_from(*cost);
                        meter.discard_replayed();
                    }
                }
            }
            assert_eq!(meter.total().cost_usd, Some(expected));
        };
        check(&[Update(0.0), Prompt, Update(0.25), Update(0.5)], 0.5);
        check(&[Prompt, Update(0.5), Update(0.25)], 0.75);
        let first = || [Prompt, Update(0.5), Process];
        let and = |more: Vec<CostEvent>| first().into_iter().chain(more).collect::<Vec<_>>();
        check(&and(vec![]), 0.5);
        // Counts from zero, and at once beyond the first process's cost.
        check(&and(vec![Prompt, Update(0.25), Update(0.75)]), 1.25);
        check(&and(vec![Prompt, Update(0.75)]), 1.25);
        check(&and(vec![Update(0.0), Prompt, Update(0.75)]), 1.25);
        // Continues the count, including cost that the first process could not report.
        check(&and(vec![Update(0.5), Prompt, Update(0.75)]), 0.75);
        check(&and(vec![Update(0.625), Prompt, Update(0.75)]), 0.75);
        check(&and(vec![Update(0.625)]), 0.625);
        // A replayed history that reports its cost.
        check(&and(vec![Again(0.5), Prompt, Update(0.75)]), 1.25);
    }

    #[test]
    fn only_dollars_count_as_dollars() {
        assert_eq!(dollars(1.5, "USD"), Some(1.5));
        assert_eq!(dollars(1.5, "EUR"), None);
        assert_eq!(dollars(f64::NAN, "USD"), None);
        assert_eq!(dollars(-1.0, "USD"), None);
        assert_eq!(dollars(1e300, "USD"), Some(1e9));
    }
}

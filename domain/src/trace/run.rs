//! A run's own span.

use ralph_shared::ids::RunId;
use time::OffsetDateTime;

use super::ids::{SpanId, TraceId};
use super::span::Span;
use crate::states::RunOutcome;

/// An ended run.
#[derive(Debug, Clone)]
pub struct RunFacts {
    pub run: RunId,
    pub feature: String,
    pub repository: String,
    pub outcome: RunOutcome,
    pub iterations: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// USD.
    pub cost: f64,
    pub started_at: OffsetDateTime,
    pub ended_at: OffsetDateTime,
}

/// The span of a whole run. The spans of its dispatches in the same trace are parts of it.
pub fn of_run(facts: &RunFacts) -> Span {
    let complete = facts.outcome == RunOutcome::Complete;
    Span::new(
        TraceId::of_run(facts.run),
        SpanId::of_run(facts.run),
        format!("feature {}", facts.feature),
        facts.started_at,
        facts.ended_at,
    )
    .text("ralph.feature", Some(&facts.feature))
    .text("ralph.repository", Some(&facts.repository))
    .text("ralph.run", Some(&facts.run.short()))
    .text("ralph.outcome", Some(facts.outcome.into_str()))
    .count("ralph.iterations", Some(i64::from(facts.iterations)))
    .count("gen_ai.usage.input_tokens", Some(facts.input_tokens))
    .count("gen_ai.usage.output_tokens", Some(facts.output_tokens))
    .number("ralph.cost_usd", Some(facts.cost))
    // Its reason in words is omitted: it names tasks, with output of their tools.
    .failed((!complete).then(|| facts.outcome.into_str()))
}

//! The spans of one dispatch.

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{StepTime, TranscriptEntry};
use time::{Duration, OffsetDateTime};

use super::ids::{SpanId, TraceId};
use super::session;
use super::span::{Span, short};
use crate::failure::Failure;
use crate::states::Outcome;

/// An ended dispatch, from its row.
#[derive(Debug, Clone)]
pub struct DispatchFacts {
    pub dispatch: DispatchId,
    /// The first dispatch of its attempt: itself, or an earlier one.
    pub began_with: DispatchId,
    pub run: RunId,
    pub feature: String,
    pub task: TaskId,
    /// The task's key.
    pub key: String,
    pub title: String,
    pub kind: SessionKind,
    pub attempt: i32,
    pub worker: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// The model that it used, if that differs from the chosen one.
    pub model_used: Option<String>,
    /// `None` if its lease ended.
    pub outcome: Option<Outcome>,
    /// The reason of a failure. Its words are omitted, since they may contain output of tools.
    pub failure: Option<Failure>,
    pub stop_reason: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// USD.
    pub cost: Option<f64>,
    pub tool_calls: Option<i32>,
    pub commit: Option<String>,
    /// The time from which the task could start, if known.
    pub ready_at: Option<OffsetDateTime>,
    pub claimed_at: OffsetDateTime,
    pub settled_at: OffsetDateTime,
    /// The executed commands of a gate.
    pub gate_times: Vec<StepTime>,
}

impl DispatchFacts {
    /// The problem, if any, in Ralph's own words.
    fn trouble(&self) -> Option<&'static str> {
        use Outcome as O;
        match self.outcome {
            // Nobody's fault: a person ended it, or the branch moved.
            Some(O::Done | O::Passed | O::Merged | O::Split | O::Interrupted | O::Void) => None,
            outcome => Some(
                self.means()
                    .unwrap_or_else(|| outcome.map_or("lost", Outcome::as_str)),
            ),
        }
    }

    fn means(&self) -> Option<&'static str> {
        self.failure.map(Failure::means)
    }

    /// Adds the attributes that every span has for searches.
    pub(super) fn about(&self, span: Span) -> Span {
        span.text("ralph.feature", Some(&self.feature))
            .text("ralph.task", Some(&self.key))
            .count("ralph.attempt", Some(i64::from(self.attempt)))
            .text("ralph.kind", Some(self.kind.into_str()))
            .text("ralph.dispatch", Some(&self.dispatch.0.to_string()))
            .text(
                "ralph.outcome",
                Some(self.outcome.map_or("lost", Outcome::as_str)),
            )
            .text("ralph.failure", self.failure.map(Failure::as_str))
            .failed(self.trouble())
    }
}

/// The spans of a dispatch: one in its run's trace, the others in its attempt's.
pub fn of_dispatch(facts: &DispatchFacts, transcript: &[TranscriptEntry]) -> Vec<Span> {
    let trace = TraceId::of_attempt(facts.task, facts.attempt);
    let whole = SpanId::of_dispatch(facts.dispatch);
    let of_run = (TraceId::of_run(facts.run), SpanId::of_run(facts.run));
    // Some backends ignore the trace and would merge two spans of one name.
    let beside = whole.part("in run");
    let begins = facts.began_with == facts.dispatch;
    // The first dispatch of the attempt is the root, so its waiting is inside it.
    let waited = facts.ready_at.map(|ready| ready.min(facts.claimed_at));
    let start = waited.unwrap_or(facts.claimed_at);
    let in_run = facts
        .about(Span::new(
            of_run.0,
            beside,
            format!("{} {}", facts.key, facts.kind),
            facts.claimed_at,
            facts.settled_at,
        ))
        .under(of_run.1)
        .with_link(trace, whole);
    let name = format!("{} {}", facts.kind, facts.key);
    let mut root = facts
        .about(Span::new(trace, whole, name, start, facts.settled_at))
        .text("ralph.task.title", Some(&facts.title))
        .text("ralph.task.id", Some(&facts.task.short()))
        .text("ralph.run", Some(&facts.run.short()))
        .text("ralph.worker", Some(&facts.worker))
        .text("ralph.reason", facts.means())
        .text("ralph.commit", facts.commit.as_deref())
        .with_link(of_run.0, beside);
    if !begins {
        root = root.under(SpanId::of_dispatch(facts.began_with));
    }
    let mut spans = vec![in_run, root];
    let part = |name: &str, from, to| Span::new(trace, whole.part(name), name, from, to).under(whole);
    spans.extend(waited.map(|from| part("wait", from, facts.claimed_at)));
    if let Some(session) = session::of_transcript(facts, transcript) {
        spans.push(part("prepare", facts.claimed_at, session.start));
        spans.push(part("hand in", session.end, facts.settled_at));
        spans.extend(session.spans);
    }
    spans.extend(of_gate(facts, trace, whole));
    spans
}

/// The commands of a gate. Nobody reports when it began; it ended just before the dispatch did.
fn of_gate(facts: &DispatchFacts, trace: TraceId, whole: SpanId) -> impl Iterator<Item = Span> {
    let last = facts
        .gate_times
        .iter()
        .map(|step| step.began_ms.saturating_add(step.duration_ms))
        .max();
    let before_end = move |ms: u64| {
        let left = last.unwrap_or_default().saturating_sub(ms);
        facts.settled_at - Duration::milliseconds(i64::try_from(left).unwrap_or(0))
    };
    facts.gate_times.iter().enumerate().map(move |(n, step)| {
        let (from, to) = (step.began_ms, step.began_ms.saturating_add(step.duration_ms));
        let id = whole.part(&format!("gate {n}"));
        let name = format!("gate: {}", short(&step.name));
        Span::new(trace, id, name, before_end(from), before_end(to))
            .under(whole)
            .failed((!step.passed).then_some("it failed"))
    })
}

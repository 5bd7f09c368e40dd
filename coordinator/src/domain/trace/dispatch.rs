//! The spans of one dispatch.

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::TranscriptEntry;
use time::OffsetDateTime;

use super::ids::{SpanId, TraceId};
use super::session;
use super::span::Span;
use crate::domain::failure::Failure;
use crate::domain::states::Outcome;

/// A dispatch that ended, as its row keeps it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct DispatchFacts {
    pub dispatch: DispatchId,
    /// The dispatch that its attempt began with: itself, or one before it.
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
    /// The model that was chosen.
    pub model: Option<String>,
    /// The model that it really worked with, where that is another.
    pub model_used: Option<String>,
    /// `None` where its lease ended.
    pub outcome: Option<Outcome>,
    /// Why it came to nothing, if it did. Its reason in words isn't told: that may hold what tools printed.
    pub failure: Option<Failure>,
    pub stop_reason: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// USD.
    pub cost: Option<f64>,
    pub tool_calls: Option<i32>,
    pub commit: Option<String>,
    /// From when on nothing of the task's own was left to wait for, as far as is known.
    pub ready_at: Option<OffsetDateTime>,
    pub claimed_at: OffsetDateTime,
    pub settled_at: OffsetDateTime,
}

impl DispatchFacts {
    /// What went wrong, if it did, in words of our own.
    fn trouble(&self) -> Option<&'static str> {
        use Outcome as O;
        match self.outcome {
            // Nobody's fault: a person ended it, or the branch moved on.
            Some(O::Done | O::Passed | O::Merged | O::Split | O::Interrupted | O::Void) => None,
            outcome => Some(
                self.means()
                    .unwrap_or_else(|| outcome.map_or("lost", Outcome::as_str)),
            ),
        }
    }

    fn means(&self) -> Option<&'static str> {
        self.failure.map(|failure| failure.policy().means)
    }

    /// What every span of it that may be looked for says.
    pub(super) fn about(&self, span: Span) -> Span {
        span.text("ralph.feature", Some(&self.feature))
            .text("ralph.task", Some(&self.key))
            .count("ralph.attempt", Some(i64::from(self.attempt)))
            .text("ralph.kind", Some(self.kind.as_str()))
            .text("ralph.dispatch", Some(&self.dispatch.0.to_string()))
            .text(
                "ralph.outcome",
                Some(self.outcome.map_or("lost", Outcome::as_str)),
            )
            .text("ralph.failure", self.failure.map(Failure::as_str))
            .failed(self.trouble())
    }
}

/// What a dispatch came to: one span in its run's trace, and all of it in its attempt's.
pub fn of_dispatch(facts: &DispatchFacts, transcript: &[TranscriptEntry]) -> Vec<Span> {
    let trace = TraceId::of_attempt(facts.task, facts.attempt);
    let whole = SpanId::of_dispatch(facts.dispatch);
    let of_run = (TraceId::of_run(facts.run), SpanId::of_run(facts.run));
    // Two spans of one name would be one for backends that look at no trace's.
    let beside = whole.part("in run");
    let begins = facts.began_with == facts.dispatch;
    // What the attempt began with is the root: so its waiting is inside it.
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
        .linked(trace, whole);
    let name = format!("{} {}", facts.kind, facts.key);
    let mut root = facts
        .about(Span::new(trace, whole, name, start, facts.settled_at))
        .text("ralph.task.title", Some(&facts.title))
        .text("ralph.task.id", Some(&facts.task.short()))
        .text("ralph.run", Some(&facts.run.short()))
        .text("ralph.worker", Some(&facts.worker))
        .text("ralph.reason", facts.means())
        .text("ralph.commit", facts.commit.as_deref())
        .linked(of_run.0, beside);
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
    spans
}

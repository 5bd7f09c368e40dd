//! An agent's actions from its transcript: the call of the agent, and its tools (OpenTelemetry's semantic
//! conventions for generative AI). Omits texts of the agent, inputs and outputs of its tools, and notes that
//! may contain any: those are in the transcript.

use std::collections::HashMap;

use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};
use time::OffsetDateTime;

use super::dispatch::DispatchFacts;
use super::ids::{SpanId, TraceId};
use super::span::{Moment, Span, short};

/// Most tool calls with a span of their own; backends refuse much larger traces.
const MAX_TOOLS: usize = 1_000;
/// Most events on a session's span.
const MAX_NOTES: usize = 50;
/// Longest title in a span's name. Characters.
const NAME_CHARS: usize = 80;

/// A session within its dispatch.
pub(super) struct Session {
    pub start: OffsetDateTime,
    pub end: OffsetDateTime,
    pub spans: Vec<Span>,
}

/// A tool call, assembled from its updates.
struct Tool<'a> {
    id: &'a str,
    title: &'a str,
    status: &'a str,
    began: OffsetDateTime,
    ended: Option<OffsetDateTime>,
}

/// The spans of a session with a started agent.
pub(super) fn of_transcript(facts: &DispatchFacts, transcript: &[TranscriptEntry]) -> Option<Session> {
    let started = transcript
        .iter()
        .find(|entry| matches!(entry.update, TranscriptUpdate::Started { .. }))?;
    let clock = Clock::of(facts, started, transcript.last()?);
    let (start, end) = (clock.at(started), clock.at(transcript.last()?));
    let trace = TraceId::of_attempt(facts.task, facts.attempt);
    let id = SpanId::of_session(facts.dispatch);
    let agent = facts.agent.as_deref().unwrap_or("agent");
    let mut session = facts
        .about(Span::new(trace, id, format!("invoke_agent {agent}"), start, end))
        .under(SpanId::of_dispatch(facts.dispatch))
        .text("gen_ai.operation.name", Some("invoke_agent"))
        .text("gen_ai.agent.name", Some(agent))
        .text("gen_ai.request.model", facts.model.as_deref())
        .text(
            "gen_ai.response.model",
            facts.model_used.as_deref().or(facts.model.as_deref()),
        )
        .text("gen_ai.response.finish_reason", facts.stop_reason.as_deref())
        .count("gen_ai.usage.input_tokens", facts.input_tokens)
        .count("gen_ai.usage.output_tokens", facts.output_tokens)
        .number("ralph.cost_usd", facts.cost)
        .count("ralph.tool_calls", facts.tool_calls.map(i64::from));
    session.is_client = true;
    session.moments = transcript
        .iter()
        .filter_map(|entry| moment(entry, clock.at(entry)))
        .take(MAX_NOTES)
        .collect();
    let mut spans = vec![session];
    spans.extend(tools(transcript, &clock).into_iter().map(|tool| {
        let name: String = tool.title.chars().take(NAME_CHARS).collect();
        let span = Span::new(
            trace,
            id.part(tool.id),
            format!("execute_tool {name}").trim_end(),
            tool.began,
            tool.ended.unwrap_or(end),
        );
        span.under(id)
            .text("gen_ai.operation.name", Some("execute_tool"))
            .text("gen_ai.tool.name", Some(tool.title))
            .text("gen_ai.tool.call.id", Some(tool.id))
            .failed((tool.status == "failed").then_some("the tool call failed"))
    }));
    Some(Session { start, end, spans })
}

fn moment(entry: &TranscriptEntry, at: OffsetDateTime) -> Option<Moment> {
    let (name, text) = match &entry.update {
        TranscriptUpdate::Dropped { count } => ("dropped", format!("{count} entries were not kept")),
        TranscriptUpdate::Ended { how } if is_word(how) => ("ended", short(how)),
        _ => return None,
    };
    Some(Moment { at, name, text })
}

/// Whether the text is a word of the protocol, not a sentence that may contain an agent's words.
fn is_word(how: &str) -> bool {
    how.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// Tool calls in the order of their start.
fn tools<'a>(transcript: &'a [TranscriptEntry], clock: &Clock) -> Vec<Tool<'a>> {
    let mut found: Vec<Tool<'a>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for entry in transcript {
        let TranscriptUpdate::Tool {
            id, title, status, ..
        } = &entry.update
        else {
            continue;
        };
        let at = clock.at(entry);
        let place = match places.get(id.as_str()) {
            Some(place) => *place,
            None if found.len() == MAX_TOOLS => continue,
            None => {
                places.insert(id, found.len());
                found.push(Tool {
                    id,
                    title: "",
                    status: "",
                    began: at,
                    ended: None,
                });
                found.len() - 1
            }
        };
        let Some(tool) = found.get_mut(place) else {
            continue;
        };
        if let Some(title) = title {
            tool.title = title;
        }
        if let Some(status) = status {
            tool.status = status;
            tool.ended = matches!(status.as_str(), "completed" | "failed").then_some(at);
        }
    }
    found
}

/// Converts a worker's clock to the database's: a session lies between its claim and its report.
struct Clock {
    ahead: time::Duration,
    from: OffsetDateTime,
    to: OffsetDateTime,
}

impl Clock {
    fn of(facts: &DispatchFacts, first: &TranscriptEntry, last: &TranscriptEntry) -> Self {
        let (from, to) = (facts.claimed_at, facts.settled_at.max(facts.claimed_at));
        let (first, last) = (timestamp(first), timestamp(last));
        let ahead = if first < from {
            first - from
        } else if last > to {
            last - to
        } else {
            time::Duration::ZERO
        };
        Self { ahead, from, to }
    }

    fn at(&self, entry: &TranscriptEntry) -> OffsetDateTime {
        timestamp(entry)
            .checked_sub(self.ahead)
            .unwrap_or(self.from)
            .clamp(self.from, self.to)
    }
}

/// The time of an entry by the worker's clock.
fn timestamp(entry: &TranscriptEntry) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(entry.at_ms) * 1_000_000)
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use ralph_shared::ids::{DispatchId, RunId, TaskId};
    use ralph_shared::kind::SessionKind;
    use ralph_shared::wire::StepTime;

    use super::super::of_dispatch;
    use super::*;
    use crate::failure::Failure;
    use crate::states::Outcome;

    fn at(second: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(1_000 + second)
    }

    /// Claimed at second 10, settled at second 60.
    fn facts() -> DispatchFacts {
        let dispatch = DispatchId::new();
        DispatchFacts {
            dispatch,
            began_with: dispatch,
            run: RunId::new(),
            feature: "tea".to_owned(),
            task: TaskId::new(),
            key: "boil".to_owned(),
            title: "Boil the water".to_owned(),
            kind: SessionKind::Work,
            attempt: 1,
            worker: "w1".to_owned(),
            agent: Some("kettle".to_owned()),
            model: None,
            model_used: None,
            outcome: Some(Outcome::Done),
            failure: None,
            stop_reason: None,
            input_tokens: None,
            output_tokens: None,
            cost: None,
            tool_calls: None,
            commit: None,
            ready_at: Some(at(0)),
            claimed_at: at(10),
            settled_at: at(60),
            gate_times: Vec::new(),
        }
    }

    fn entry(second: i64, update: TranscriptUpdate) -> TranscriptEntry {
        TranscriptEntry {
            seq: 0,
            at_ms: (1_000 + second) * 1_000,
            update,
        }
    }

    fn started() -> TranscriptUpdate {
        TranscriptUpdate::Started {
            agent: "kettle".to_owned(),
            model: None,
        }
    }

    fn tool(id: &str, title: Option<&str>, status: &str) -> TranscriptUpdate {
        TranscriptUpdate::Tool {
            id: id.to_owned(),
            title: title.map(str::to_owned),
            status: Some(status.to_owned()),
            input: Some("secret input".to_owned()),
            output: Some("secret output".to_owned()),
        }
    }

    fn ended() -> TranscriptUpdate {
        TranscriptUpdate::Ended {
            how: "end_turn".to_owned(),
        }
    }

    /// Each span of the attempt's trace, with its start and end in seconds.
    fn timeline(facts: &DispatchFacts, transcript: &[TranscriptEntry]) -> Vec<(String, i64, i64)> {
        let trace = TraceId::of_attempt(facts.task, facts.attempt);
        let spans = of_dispatch(facts, transcript);
        let whole = |at: OffsetDateTime| (at - OffsetDateTime::UNIX_EPOCH).whole_seconds() - 1_000;
        let of_trace = spans.into_iter().filter(|span| span.trace == trace);
        of_trace
            .map(|span| (span.name, whole(span.start), whole(span.end)))
            .collect()
    }

    #[test]
    fn a_session_has_spans_for_its_tools_its_preparation_and_its_end() {
        let transcript = [
            entry(15, started()),
            entry(20, tool("1", Some("cargo test"), "in_progress")),
            entry(25, tool("2", Some("read"), "pending")),
            entry(30, tool("1", None, "failed")),
            entry(50, ended()),
        ];
        let facts = facts();
        let expected = [
            ("work boil", 0, 60),
            ("wait", 0, 10),
            ("prepare", 10, 15),
            ("hand in", 50, 60),
            ("invoke_agent kettle", 15, 50),
            ("execute_tool cargo test", 20, 30),
            // It never ended.
            ("execute_tool read", 25, 50),
        ];
        assert_eq!(
            timeline(&facts, &transcript),
            expected.map(|(name, from, to)| (name.to_owned(), from, to))
        );
        let spans = of_dispatch(&facts, &transcript);
        let errors: Vec<_> = spans
            .iter()
            .filter(|span| span.error.is_some())
            .map(|span| &span.name)
            .collect();
        assert_eq!(errors, ["execute_tool cargo test"]);
        assert!(!format!("{spans:?}").contains("secret"));
    }

    #[test]
    fn a_wrong_worker_clock_is_corrected_by_claim_and_report() {
        let check = |wrong: i64, start: i64, end: i64| {
            let transcript = [entry(15 + wrong, started()), entry(50 + wrong, ended())];
            let spans = timeline(&facts(), &transcript);
            assert_eq!(
                spans[4],
                ("invoke_agent kettle".to_owned(), start, end),
                "{wrong}"
            );
        };
        check(0, 15, 50);
        check(3_600, 25, 60);
        check(-3_600, 10, 45);
    }

    #[test]
    fn gate_commands_end_with_the_dispatch_that_ran_them() {
        let step = |name: &str, began_ms, duration_ms, passed| StepTime {
            name: name.to_owned(),
            began_ms,
            duration_ms,
            passed,
        };
        let facts = DispatchFacts {
            kind: SessionKind::Check,
            gate_times: vec![step("lint", 0, 2_000, true), step("tests", 2_000, 8_000, false)],
            ..facts()
        };
        let gate = timeline(&facts, &[]);
        assert_eq!(
            gate[gate.len() - 2..],
            [
                ("gate: lint".to_owned(), 50, 52),
                ("gate: tests".to_owned(), 52, 60)
            ]
        );
        let spans = of_dispatch(&facts, &[]);
        let error = spans.last().and_then(|span| span.error.clone());
        assert_eq!(error.as_deref(), Some("it failed"));
    }

    #[test]
    fn a_later_dispatch_is_part_of_its_attempt_and_a_lost_one_failed() {
        let began = DispatchId::new();
        let facts = DispatchFacts {
            began_with: began,
            kind: SessionKind::Integrate,
            outcome: Some(Outcome::Lost),
            failure: Some(Failure::WorkerDied),
            ready_at: None,
            ..facts()
        };
        let spans = of_dispatch(&facts, &[]);
        assert_eq!(spans.len(), 2);
        let (in_run, whole) = (&spans[0], &spans[1]);
        assert_eq!(whole.parent, Some(SpanId::of_dispatch(began)));
        assert_eq!(whole.error.as_deref(), Some(Failure::WorkerDied.means()));
        assert_eq!(in_run.link, Some((whole.trace, whole.id)));
        assert_ne!(in_run.id, whole.id);
        assert_eq!(in_run.parent, Some(SpanId::of_run(facts.run)));
    }
}

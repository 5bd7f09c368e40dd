//! Renders a transcript entry by entry, both for reading and for following.
//!
//! A tool call has several entries. Each of them renders the whole call under the same id, so that a browser
//! that follows replaces the earlier state of the call.

use std::collections::HashMap;

use maud::{Markup, html};
use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};
use time::OffsetDateTime;

use super::words::{block, bytes, clock, cut_line, line};

/// Longest shown message, thought, tool input or tool output. Bytes.
const TEXT_BYTES: usize = 64 * 1024;
/// Longest tool output that is open at first. Lines.
const OPEN_LINES: usize = 12;
/// Most tool calls whose state is stored.
const CALLS: usize = 10_000;

/// The state of a session's tool calls.
#[derive(Debug, Default)]
pub struct Calls(HashMap<String, Call>);

#[derive(Debug, Clone, Default)]
struct Call {
    seq: u64,
    title: Option<String>,
    status: Option<String>,
    input: Option<String>,
    output: Option<String>,
}

impl Calls {
    /// Renders an entry as an element with an id.
    pub fn show(&mut self, entry: &TranscriptEntry) -> Option<Markup> {
        let (at, seq) = (moment(entry), entry.seq);
        let shown = |class: &str, what: &str, body: Markup| {
            Some(html! {
                li.entry.{ (class) } id={ "e" (seq) } {
                    span.what { @if let Some(at) = at { (clock(at)) " " } (what) }
                    div.said { (body) }
                }
            })
        };
        match &entry.update {
            TranscriptUpdate::Started { agent, model } => shown(
                "t-note",
                "began",
                html! { p { (line(agent)) @if let Some(model) = model { ", " (line(model)) } } },
            ),
            TranscriptUpdate::Text { text } => shown("t-text", "says", prose(text)),
            TranscriptUpdate::Thought { text } => shown("t-thought", "thinks", prose(text)),
            TranscriptUpdate::Tool { .. } => self.update_call(entry).map(|call| tool(&call, at)),
            TranscriptUpdate::Plan { entries } => shown(
                "t-plan",
                "plans",
                html! { ul { @for entry in entries.iter().take(200) { li { (line(entry)) } } } },
            ),
            TranscriptUpdate::Request {
                method,
                detail,
                answer,
            } => shown(
                "t-request",
                "asks",
                html! { p { code { (line(method)) } " " (cut_line(detail, 500)) " → " (cut_line(answer, 200)) } },
            ),
            TranscriptUpdate::Said { by, text } => shown("t-said", by, prose(text)),
            TranscriptUpdate::Note { text } => shown(
                if mentions_error(text) {
                    "t-note is-error"
                } else {
                    "t-note"
                },
                "worker",
                prose(text),
            ),
            TranscriptUpdate::Dropped { count } => shown(
                "t-note",
                "left out",
                html! { p { (count) " entries were not kept" } },
            ),
            TranscriptUpdate::Ended { how } => shown("t-note", "ended", html! { p { (line(how)) } }),
            TranscriptUpdate::Usage { .. } | TranscriptUpdate::Session { .. } | TranscriptUpdate::Unknown => {
                None
            }
        }
    }

    /// Records an entry without rendering it.
    pub fn record(&mut self, entry: &TranscriptEntry) {
        self.update_call(entry);
    }

    fn update_call(&mut self, entry: &TranscriptEntry) -> Option<Call> {
        let TranscriptUpdate::Tool {
            id,
            title,
            status,
            input,
            output,
        } = &entry.update
        else {
            return None;
        };
        if self.0.len() >= CALLS && !self.0.contains_key(id) {
            self.0.clear();
        }
        let call = self.0.entry(id.to_owned()).or_insert_with(|| Call {
            seq: entry.seq,
            ..Call::default()
        });
        for (known, new) in [
            (&mut call.title, title),
            (&mut call.status, status),
            (&mut call.input, input),
            (&mut call.output, output),
        ] {
            if new.is_some() {
                known.clone_from(new);
            }
        }
        Some(call.clone())
    }
}

/// A part of a transcript.
#[derive(Debug, Default)]
pub struct Part {
    /// Its entries; each call once, in its last state.
    pub shown: Vec<Markup>,
    /// Number of the first entry.
    pub first: u64,
    /// Entries before the first one.
    pub earlier: usize,
    /// Entries of the whole transcript with an error.
    pub errors: usize,
}

/// Renders the last `most` entries, or the last ones before the number `before`. A reader loads a long
/// transcript part by part.
pub fn part(entries: &[TranscriptEntry], before: Option<u64>, most: usize) -> Part {
    let mut calls = Calls::default();
    let mut lines: Vec<(&TranscriptEntry, Option<Call>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for entry in entries {
        let call = calls.update_call(entry);
        match &entry.update {
            TranscriptUpdate::Usage { .. } | TranscriptUpdate::Session { .. } | TranscriptUpdate::Unknown => {
            }
            TranscriptUpdate::Tool { id, .. } => match places.get(id.as_str()) {
                Some(place) => lines[*place].1 = call,
                None => {
                    places.insert(id, lines.len());
                    lines.push((entry, call));
                }
            },
            _ => lines.push((entry, None)),
        }
    }
    let is_error = |(entry, call): &&(&TranscriptEntry, Option<Call>)| match (&entry.update, call) {
        (TranscriptUpdate::Note { text }, _) => mentions_error(text),
        (_, call) => call.as_ref().is_some_and(Call::failed),
    };
    let errors = lines.iter().filter(is_error).count();
    let end = before.map_or(lines.len(), |before| {
        lines.partition_point(|(entry, _)| entry.seq < before)
    });
    let begin = end.saturating_sub(most);
    let shown = lines[begin..end].iter().filter_map(|(entry, call)| match call {
        Some(call) => Some(tool(call, moment(entry))),
        None => calls.show(entry),
    });
    Part {
        shown: shown.collect(),
        first: lines.get(begin).map_or(0, |(entry, _)| entry.seq),
        earlier: begin,
        errors,
    }
}

fn moment(entry: &TranscriptEntry) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(entry.at_ms) * 1_000_000).ok()
}

fn mentions_error(note: &str) -> bool {
    let note = note.to_lowercase();
    ["error", "fail", "limit", "refused"]
        .iter()
        .any(|word| note.contains(word))
}

impl Call {
    fn failed(&self) -> bool {
        self.status.as_deref() == Some("failed")
    }
}

fn prose(text: &str) -> Markup {
    let (shown, left) = block(text, TEXT_BYTES);
    html! { pre.prose { (shown.trim_end()) } @if left > 0 { p.dim { "… and " (bytes(left)) " more" } } }
}

fn tool(call: &Call, at: Option<OffsetDateTime>) -> Markup {
    let status = call.status.as_deref().unwrap_or("pending");
    let failed = call.failed();
    let output = call.output.as_deref().unwrap_or_default();
    let is_open = failed || output.lines().count() <= OPEN_LINES;
    html! {
        li.entry.t-tool.is-error[failed] id={ "e" (call.seq) } {
            span.what { @if let Some(at) = at { (clock(at)) " " } "tool" }
            div.said {
                p.call {
                    span.{ "sign s-" (if failed { "failed" } else if status == "completed" { "done" } else { "running" }) } aria-hidden="true" {
                        (if failed { "✕" } else if status == "completed" { "✓" } else { "▶" })
                    }
                    code { (cut_line(call.title.as_deref().unwrap_or("a tool"), 400)) }
                    @if failed { " " span.dim { "failed" } }
                }
                @if let Some(input) = call.input.as_deref().filter(|input| !input.is_empty() && *input != "{}") {
                    details id={ "in" (call.seq) } { summary { "input" } (output_of(input)) }
                }
                @if !output.trim().is_empty() {
                    details id={ "out" (call.seq) } open[is_open] { summary { "output" } (output_of(output)) }
                }
            }
        }
    }
}

fn output_of(text: &str) -> Markup {
    super::words::pre(text, TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, update: TranscriptUpdate) -> TranscriptEntry {
        TranscriptEntry {
            seq,
            at_ms: 0,
            update,
        }
    }

    fn tool_entry(seq: u64, title: Option<&str>, status: &str, output: Option<&str>) -> TranscriptEntry {
        entry(
            seq,
            TranscriptUpdate::Tool {
                id: "c".to_owned(),
                title: title.map(str::to_owned),
                status: Some(status.to_owned()),
                input: None,
                output: output.map(str::to_owned),
            },
        )
    }

    #[test]
    fn each_entry_of_a_call_renders_the_whole_call() {
        let mut calls = Calls::default();
        let first = calls.show(&tool_entry(3, Some("make test"), "pending", None));
        let then = calls.show(&tool_entry(5, None, "failed", Some("<i>no\u{1b}[31m</i>")));
        let (first, then) = (
            first.map(Markup::into_string).unwrap_or_default(),
            then.map(Markup::into_string).unwrap_or_default(),
        );
        assert!(
            first.contains("id=\"e3\"") && then.contains("id=\"e3\""),
            "{then}"
        );
        assert!(then.contains("make test") && then.contains("is-error"), "{then}");
        assert!(then.contains("&lt;i&gt;no&lt;/i&gt;"), "{then}");
    }

    #[test]
    fn a_part_has_each_call_once_and_counts_earlier_entries() {
        let text = |seq| {
            entry(
                seq,
                TranscriptUpdate::Text {
                    text: format!("word {seq}"),
                },
            )
        };
        let mut entries = vec![tool_entry(0, Some("make"), "pending", None)];
        entries.extend((1..10).map(text));
        entries.push(tool_entry(10, None, "failed", Some("no")));
        let last = part(&entries, None, 3);
        assert_eq!(
            (last.shown.len(), last.first, last.earlier, last.errors),
            (3, 7, 7, 1)
        );
        assert!(last.shown[0].0.contains("word 7"), "{:?}", last.shown);
        let first = part(&entries, Some(last.first), 100);
        assert_eq!((first.shown.len(), first.earlier), (7, 0));
        assert!(first.shown[0].0.contains("is-error"), "{:?}", first.shown);
        assert_eq!(part(&[], None, 3).shown.len(), 0);
    }

    #[test]
    fn entries_without_meaning_for_people_are_omitted() {
        let usage = TranscriptUpdate::Usage { text: "1".to_owned() };
        assert!(Calls::default().show(&entry(0, usage)).is_none());
    }
}

//! A transcript, entry by entry, the same whether it is read or followed.
//!
//! A tool call is told several times: each time the whole call is shown anew under the same id, so that a reader who follows puts it in the
//! place of what was known of it before.

use std::collections::HashMap;

use maud::{Markup, html};
use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};
use time::OffsetDateTime;

use super::words::{block, bytes, clock, cut_line, line};

/// Of a message, a thought, a tool's input or output. Bytes.
const TEXT_BYTES: usize = 64 * 1024;
/// Output beyond is closed until somebody opens it. Lines.
const OPEN_LINES: usize = 12;
/// Calls whose beginning is remembered.
const CALLS: usize = 10_000;

/// What is known of a session's tool calls so far.
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
    /// Shows an entry, with the id of its element.
    pub fn show(&mut self, entry: &TranscriptEntry) -> Option<Markup> {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(entry.at_ms) * 1_000_000).ok();
        let seq = entry.seq;
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
            TranscriptUpdate::Tool {
                id,
                title,
                status,
                input,
                output,
            } => {
                let call = self.call(seq, id, title, status, input, output);
                Some(tool(&call, at))
            }
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
            TranscriptUpdate::Note { text } => {
                let is_error = ["error", "fail", "limit", "refused"]
                    .iter()
                    .any(|word| text.to_lowercase().contains(word));
                shown(
                    if is_error { "t-note is-error" } else { "t-note" },
                    "worker",
                    prose(text),
                )
            }
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

    /// Shows all of them, each call once and as it was told last; with their numbers.
    pub fn whole(mut self, entries: &[TranscriptEntry]) -> Vec<(u64, Markup)> {
        let mut shown: Vec<(u64, Markup)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for entry in entries {
            let Some(markup) = self.show(entry) else { continue };
            let TranscriptUpdate::Tool { id, .. } = &entry.update else {
                shown.push((entry.seq, markup));
                continue;
            };
            match places.get(id) {
                Some(place) => shown[*place].1 = markup,
                None => {
                    places.insert(id.clone(), shown.len());
                    shown.push((entry.seq, markup));
                }
            }
        }
        shown
    }

    fn call(
        &mut self,
        seq: u64,
        id: &str,
        title: &Option<String>,
        status: &Option<String>,
        input: &Option<String>,
        output: &Option<String>,
    ) -> Call {
        if self.0.len() >= CALLS && !self.0.contains_key(id) {
            self.0.clear();
        }
        let call = self.0.entry(id.to_owned()).or_insert_with(|| Call {
            seq,
            ..Call::default()
        });
        for (known, told) in [
            (&mut call.title, title),
            (&mut call.status, status),
            (&mut call.input, input),
            (&mut call.output, output),
        ] {
            if told.is_some() {
                known.clone_from(told);
            }
        }
        call.clone()
    }
}

fn prose(text: &str) -> Markup {
    let (shown, left) = block(text, TEXT_BYTES);
    html! { pre.prose { (shown.trim_end()) } @if left > 0 { p.dim { "… and " (bytes(left)) " more" } } }
}

fn tool(call: &Call, at: Option<OffsetDateTime>) -> Markup {
    let status = call.status.as_deref().unwrap_or("pending");
    let failed = status == "failed";
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
    fn a_call_is_shown_whole_each_time_it_is_told() {
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
    fn what_says_nothing_to_people_is_left_out() {
        let usage = TranscriptUpdate::Usage { text: "1".to_owned() };
        assert!(Calls::default().show(&entry(0, usage)).is_none());
    }
}

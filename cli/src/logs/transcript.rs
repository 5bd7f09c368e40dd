//! A transcript for people: the agent's text bright, thoughts dim, tool calls in cyan, errors red (SPEC
//! 9.3).

use ralph_api::view::TranscriptOf;
use ralph_shared::sigil::ShownText;
use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};

use crate::terminal::color::{Paint, Tone, tame};
use crate::terminal::plural::counted;
use crate::terminal::table::clip;

/// Displayed characters of a tool's input.
const INPUT_WIDTH: usize = 160;
/// Displayed lines of a tool's output.
const OUTPUT_LINES: usize = 12;

/// Renders a growing text; pieces of one text continue on the same line.
#[derive(Debug)]
pub struct Show {
    paint: Paint,
    /// Tone of the last piece, if its line is still open.
    open: Option<Tone>,
    /// Replaces sigils in the agent's text by words.
    says: ShownText,
}

impl Show {
    pub fn new() -> Self {
        Self {
            paint: Paint::stdout(),
            open: None,
            says: ShownText::default(),
        }
    }

    /// Without colours.
    pub fn plain() -> Self {
        Self {
            paint: Paint::none(),
            open: None,
            says: ShownText::default(),
        }
    }

    /// A heading that names the session.
    pub fn head(&mut self, of: &TranscriptOf) -> String {
        let line = format!(
            "── {} attempt {} ({}) on {} ──",
            of.kind, of.attempt, of.dispatch, of.worker
        );
        self.note(&line)
    }

    /// A line of our own.
    pub fn note(&mut self, line: &str) -> String {
        format!("{}{}\n", self.close(), self.paint.apply(Tone::Bright, line))
    }

    /// The text that an entry adds.
    pub fn entry(&mut self, entry: &TranscriptEntry) -> String {
        match &entry.update {
            TranscriptUpdate::Text { text } => {
                let shown = self.says.push(text);
                self.piece(Tone::Bright, &shown)
            }
            TranscriptUpdate::Thought { text } => {
                let rest = self.says.finish();
                self.piece(Tone::Bright, &rest) + &self.piece(Tone::Dim, text)
            }
            TranscriptUpdate::Started { agent, model } => {
                let model = model.as_ref().map(|model| format!(", model {model}"));
                let model = model.unwrap_or_default();
                self.line(Tone::Dim, &format!("agent {agent}{model}"))
            }
            TranscriptUpdate::Tool {
                id,
                title,
                status,
                input,
                output,
            } => {
                let failed = status.as_deref() == Some("failed");
                let mut text = String::new();
                if title.is_some() || input.is_some() || failed {
                    let name = title.as_deref().unwrap_or(id);
                    text.push_str(&self.call(name, input.as_deref(), failed));
                }
                if let Some(output) = output {
                    text.push_str(&self.output(output, failed));
                }
                text
            }
            TranscriptUpdate::Plan { entries } => {
                let lines = entries.iter().map(|entry| format!("plan: {entry}"));
                lines.map(|line| self.line(Tone::Dim, &line)).collect()
            }
            TranscriptUpdate::Request {
                method,
                detail,
                answer,
            } => self.line(
                Tone::Dim,
                &format!("{method} {} → {}", one_line(detail), one_line(answer)),
            ),
            TranscriptUpdate::Usage { text } => self.line(Tone::Dim, &format!("usage: {text}")),
            TranscriptUpdate::Session { kind, text } => {
                self.line(Tone::Dim, &format!("{}: {}", one_line(kind), one_line(text)))
            }
            TranscriptUpdate::Said { by, text } => self.line(Tone::Bright, &format!("{by} says: {text}")),
            TranscriptUpdate::Note { text } => self.line(Tone::Warn, text),
            TranscriptUpdate::Dropped { count } => {
                let entries = counted(*count, "entry was", "entries were");
                let line = format!("{entries} not kept: the transcript reached its limit");
                self.line(Tone::Warn, &line)
            }
            TranscriptUpdate::Ended { how } => self.line(Tone::Dim, &format!("ended: {how}")),
            TranscriptUpdate::Unknown => String::new(),
        }
    }

    /// Ends an open line.
    pub fn close(&mut self) -> String {
        let rest = self.says.finish();
        let mut text = self.piece(Tone::Bright, &rest);
        if self.open.take().is_some() {
            text.push('\n');
        }
        text
    }

    fn piece(&mut self, tone: Tone, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let mut shown = match self.open {
            Some(open) if open != tone => "\n".to_owned(),
            _ => String::new(),
        };
        let text = tame(text);
        shown.push_str(&self.paint.apply(tone, &text));
        self.open = (!text.ends_with('\n')).then_some(tone);
        shown
    }

    fn line(&mut self, tone: Tone, text: &str) -> String {
        format!("{}{}\n", self.close(), self.paint.apply(tone, &tame(text)))
    }

    fn call(&mut self, name: &str, input: Option<&str>, failed: bool) -> String {
        let tone = if failed { Tone::Bad } else { Tone::Active };
        let failed = if failed { " failed" } else { "" };
        let input = input.map(|input| format!(" {}", one_line(input)));
        let input = input.unwrap_or_default();
        self.line(tone, &format!("▸ {}{failed}{input}", one_line(name)))
    }

    fn output(&mut self, output: &str, failed: bool) -> String {
        let tone = if failed { Tone::Bad } else { Tone::Dim };
        let lines: Vec<&str> = output.lines().collect();
        let omitted = lines.len().saturating_sub(OUTPUT_LINES);
        let mut shown = String::new();
        if omitted > 0 {
            shown.push_str(&self.line(tone, &format!("  … {}", counted(omitted, "line", "lines"))));
        }
        for line in &lines[omitted..] {
            shown.push_str(&self.line(tone, &format!("  {line}")));
        }
        shown
    }
}

fn one_line(text: &str) -> String {
    clip(
        &text.split_whitespace().collect::<Vec<_>>().join(" "),
        INPUT_WIDTH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_pieces_share_a_line_and_other_entries_have_their_own() {
        let mut show = Show {
            paint: Paint::none(),
            open: None,
            says: ShownText::default(),
        };
        let entry = |update| TranscriptEntry {
            seq: 0,
            at_ms: 0,
            update,
        };
        let text = |text: &str| {
            entry(TranscriptUpdate::Text {
                text: text.to_owned(),
            })
        };
        let tool = |status: Option<&str>, output: Option<&str>| {
            entry(TranscriptUpdate::Tool {
                id: "c1".to_owned(),
                title: status.is_none().then(|| "Run tests".to_owned()),
                status: status.map(str::to_owned),
                input: status.is_none().then(|| "{\n \"command\": \"make\" }".to_owned()),
                output: output.map(str::to_owned),
            })
        };
        let shown: String = [
            text("Let me "),
            text("look.\x1b[2J"),
            tool(None, None),
            tool(Some("failed"), Some("no\nsuch file")),
            entry(TranscriptUpdate::Ended {
                how: "end_turn".to_owned(),
            }),
        ]
        .iter()
        .map(|entry| show.entry(entry))
        .collect();
        let expected = "Let me look.
▸ Run tests { \"command\": \"make\" }
▸ c1 failed
  no
  such file
ended: end_turn
";
        assert_eq!(shown, expected);
    }
}

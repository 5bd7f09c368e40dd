//! A transcript for people: the agent's text bright, thoughts dim, tool calls in cyan, errors red (SPEC
//! 9.3).

use std::collections::HashMap;

use super::{Paint, Tone, counted, tame};
use crate::sigil::ShownText;
use crate::wire::TranscriptUpdate;

/// Longest title or input of a tool. Characters.
const LINE_CHARS: usize = 160;
/// Most lines of a tool's output.
const OUTPUT_LINES: usize = 12;

/// Renders a growing transcript; pieces of one text continue on the same line.
#[derive(Debug)]
pub struct TranscriptText {
    paint: Paint,
    /// Tone of the last piece, if its line is still open.
    open: Option<Tone>,
    /// Replaces sigils in the agent's text by words.
    says: ShownText,
    /// Titles of tool calls that have not ended.
    titles: HashMap<String, String>,
}

impl TranscriptText {
    pub fn new(paint: Paint) -> Self {
        Self {
            paint,
            open: None,
            says: ShownText::default(),
            titles: HashMap::new(),
        }
    }

    /// A line of its own.
    pub fn line(&mut self, tone: Tone, text: &str) -> String {
        format!("{}{}\n", self.close(), self.paint.apply(tone, &tame(text)))
    }

    /// The text that an update adds.
    pub fn add(&mut self, update: &TranscriptUpdate) -> String {
        use TranscriptUpdate as U;
        match update {
            U::Text { text } => {
                let shown = self.says.push(text);
                self.piece(Tone::Bright, &shown)
            }
            U::Thought { text } => {
                let rest = self.says.finish();
                self.piece(Tone::Bright, &rest) + &self.piece(Tone::Dim, text)
            }
            U::Started { agent, model } => {
                let model = model.as_ref().map(|model| format!(", model {model}"));
                let model = model.unwrap_or_default();
                self.line(Tone::Dim, &format!("agent {agent}{model}"))
            }
            U::Tool {
                id,
                title,
                status,
                input,
                output,
            } => {
                let status = status.as_deref();
                self.call(id, title.as_ref(), status, input.as_deref())
                    + &self.output(output.as_deref(), status)
            }
            U::Plan { entries } => {
                let lines = entries.iter().map(|entry| format!("plan: {entry}"));
                lines.map(|line| self.line(Tone::Dim, &line)).collect()
            }
            U::Request {
                method,
                detail,
                answer,
            } => self.line(
                Tone::Dim,
                &format!("{method} {} → {}", one_line(detail), one_line(answer)),
            ),
            U::Usage { text } => self.line(Tone::Dim, &format!("usage: {text}")),
            U::Session { kind, text } => {
                self.line(Tone::Dim, &format!("{}: {}", one_line(kind), one_line(text)))
            }
            U::Said { by, text } => self.line(Tone::Bright, &format!("{by} says: {text}")),
            U::Note { text } => self.line(Tone::Warn, text),
            U::Dropped { count } => {
                let entries = counted(*count, "entry was", "entries were");
                let line = format!("{entries} not kept: the transcript reached its limit");
                self.line(Tone::Warn, &line)
            }
            U::Ended { how } => self.line(Tone::Dim, &format!("ended: {how}")),
            U::Unknown => String::new(),
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

    /// The line of a tool call, when there is something new to tell about it.
    fn call(
        &mut self,
        id: &str,
        title: Option<&String>,
        status: Option<&str>,
        input: Option<&str>,
    ) -> String {
        let known = self.titles.get(id);
        let has_failed = status == Some("failed");
        let is_new = title.is_some() && title != known;
        let title = title.or(known).map_or(id, String::as_str).to_owned();
        if has_failed || status == Some("completed") {
            self.titles.remove(id);
        } else {
            self.titles.insert(id.to_owned(), title.clone());
        }
        if !is_new && input.is_none() && !has_failed {
            return String::new();
        }
        let (tone, failed) = match has_failed {
            true => (Tone::Bad, " failed"),
            false => (Tone::Active, ""),
        };
        let input = input.map(|input| format!(" {}", one_line(input)));
        let input = input.unwrap_or_default();
        self.line(tone, &format!("▸ {}{failed}{input}", one_line(&title)))
    }

    fn output(&mut self, output: Option<&str>, status: Option<&str>) -> String {
        let tone = match status {
            Some("failed") => Tone::Bad,
            _ => Tone::Dim,
        };
        let lines: Vec<&str> = output.unwrap_or_default().lines().collect();
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

/// The text on one line, shortened.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(LINE_CHARS) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TranscriptUpdate {
        TranscriptUpdate::Text {
            text: text.to_owned(),
        }
    }

    fn tool(
        title: Option<&str>,
        status: &str,
        input: Option<&str>,
        output: Option<&str>,
    ) -> TranscriptUpdate {
        TranscriptUpdate::Tool {
            id: "c1".to_owned(),
            title: title.map(str::to_owned),
            status: Some(status.to_owned()),
            input: input.map(str::to_owned),
            output: output.map(str::to_owned),
        }
    }

    fn shown(updates: &[TranscriptUpdate]) -> String {
        let mut transcript = TranscriptText::new(Paint::none());
        updates.iter().map(|update| transcript.add(update)).collect()
    }

    #[test]
    fn text_pieces_share_a_line_and_other_updates_have_their_own() {
        let input = "{\n \"command\": \"make\" }";
        let updates = [
            TranscriptUpdate::Thought {
                text: "Hm".to_owned(),
            },
            text("Let me "),
            text("look.\x1b[2J"),
            tool(Some("Run tests"), "pending", Some(input), None),
            tool(Some("Run tests"), "in_progress", None, None),
            tool(None, "failed", None, Some("no\nsuch file")),
            TranscriptUpdate::Ended {
                how: "end_turn".to_owned(),
            },
        ];
        let expected = "Hm
Let me look.
▸ Run tests { \"command\": \"make\" }
▸ Run tests failed
  no
  such file
ended: end_turn
";
        assert_eq!(shown(&updates), expected);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let output: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let shown = shown(&[tool(Some("t"), "completed", None, Some(&output))]);
        assert!(shown.starts_with("▸ t\n  … 8 lines\n  line 9\n"), "{shown}");
    }
}

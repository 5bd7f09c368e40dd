//! An agent's activity as text: its messages bright, thoughts dim, tool calls in cyan with their input,
//! errors red (SPEC 9.3).

use std::collections::HashMap;
use std::io::Write as _;

use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};

use crate::color::{Paint, Tone, tame};

/// Longest tool input. Characters.
const INPUT_CHARS: usize = 120;

/// Most lines of a tool's output.
const OUTPUT_LINES: usize = 8;

#[derive(Debug)]
pub struct Screen {
    paint: Paint,
    /// Tone of the open line, if there is one.
    open: Option<Tone>,
    titles: HashMap<String, String>,
}

impl Screen {
    pub fn new(paint: Paint) -> Self {
        Self {
            paint,
            open: None,
            titles: HashMap::new(),
        }
    }

    /// Prints entries. Output errors don't concern the session.
    pub fn show(&mut self, entries: &[TranscriptEntry]) {
        let text: String = entries.iter().map(|entry| self.text(&entry.update)).collect();
        print(&text);
    }

    /// Prints one of Ralph's own lines.
    pub fn say(&mut self, tone: Tone, words: &str) {
        let text = self.line(tone, words);
        print(&text);
    }

    pub fn close(&mut self) {
        print(self.closed());
    }

    fn text(&mut self, update: &TranscriptUpdate) -> String {
        use TranscriptUpdate as U;
        match update {
            U::Text { text } => self.piece(Tone::Bright, text),
            U::Thought { text } => self.piece(Tone::Dim, text),
            U::Said { by, text } => self.line(Tone::Bright, &format!("{by} says: {text}")),
            U::Started { agent, model } => {
                let model = model.as_ref().map_or(String::new(), |model| format!(", {model}"));
                self.line(Tone::Dim, &format!("{agent}{model}"))
            }
            U::Tool {
                id,
                title,
                status,
                input,
                output,
            } => self.tool(
                id,
                title.as_deref(),
                status.as_deref(),
                input.as_deref(),
                output.as_deref(),
            ),
            U::Plan { entries } => {
                let entries = entries.iter().map(|entry| format!("  {entry}"));
                let lines = std::iter::once("plan".to_owned()).chain(entries);
                self.line(Tone::Dim, &lines.collect::<Vec<_>>().join("\n"))
            }
            U::Request {
                method,
                detail,
                answer,
            } => self.line(Tone::Dim, &format!("{method} {detail}: {answer}")),
            U::Usage { text } => self.line(Tone::Dim, text),
            U::Note { text } => self.line(Tone::Warn, text),
            U::Dropped { count } => self.line(Tone::Warn, &format!("{count} updates are not shown")),
            U::Session { .. } | U::Ended { .. } | U::Unknown => String::new(),
        }
    }

    fn tool(
        &mut self,
        id: &str,
        title: Option<&str>,
        status: Option<&str>,
        input: Option<&str>,
        output: Option<&str>,
    ) -> String {
        let failed = status == Some("failed");
        let known = self.titles.get(id).cloned();
        let title = title
            .map(str::to_owned)
            .or(known.clone())
            .unwrap_or(id.to_owned());
        let mut text = String::new();
        if known.as_ref() != Some(&title) || input.is_some() {
            let input = input.map_or(String::new(), |input| format!(" {}", clipped(input)));
            text += &self.line(Tone::Active, &format!("▸ {}{input}", clipped(&title)));
        }
        if status == Some("completed") || failed {
            let lines: Vec<&str> = output.unwrap_or_default().lines().collect();
            let left_out = lines.len().saturating_sub(OUTPUT_LINES);
            let tone = if failed { Tone::Bad } else { Tone::Dim };
            if failed {
                text += &self.line(tone, &format!("  {} failed", clipped(&title)));
            }
            if left_out > 0 {
                text += &self.line(tone, &format!("  … {left_out} lines"));
            }
            for line in &lines[left_out..] {
                text += &self.line(tone, &format!("  {line}"));
            }
            self.titles.remove(id);
        } else {
            self.titles.insert(id.to_owned(), title);
        }
        text
    }

    fn piece(&mut self, tone: Tone, text: &str) -> String {
        let closed = if self.open.is_some_and(|open| open != tone) {
            self.closed()
        } else {
            ""
        };
        let text = tame(text);
        self.open = (!text.ends_with('\n')).then_some(tone);
        format!("{closed}{}", self.paint.apply(tone, &text))
    }

    fn line(&mut self, tone: Tone, words: &str) -> String {
        format!("{}{}\n", self.closed(), self.paint.apply(tone, &tame(words)))
    }

    fn closed(&mut self) -> &'static str {
        if self.open.take().is_some() { "\n" } else { "" }
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The text on one line, shortened.
fn clipped(text: &str) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(INPUT_CHARS) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(updates: &[TranscriptUpdate]) -> String {
        let mut screen = Screen::new(Paint::none());
        updates.iter().map(|update| screen.text(update)).collect()
    }

    fn tool(
        title: Option<&str>,
        status: &str,
        input: Option<&str>,
        output: Option<&str>,
    ) -> TranscriptUpdate {
        TranscriptUpdate::Tool {
            id: "1".to_owned(),
            title: title.map(str::to_owned),
            status: Some(status.to_owned()),
            input: input.map(str::to_owned),
            output: output.map(str::to_owned),
        }
    }

    #[test]
    fn text_is_joined_and_everything_else_has_its_own_line() {
        let text = |text: &str| TranscriptUpdate::Text {
            text: text.to_owned(),
        };
        assert_eq!(
            shown(&[
                TranscriptUpdate::Thought {
                    text: "Hm".to_owned()
                },
                text("I lo"),
                text("ok.\u{1b}[2J"),
                tool(
                    Some("Run tests"),
                    "pending",
                    Some("{\n \"command\": \"make\" }"),
                    None
                ),
                tool(None, "in_progress", None, None),
                tool(None, "failed", None, Some("one\ntwo")),
                text("Done.\n"),
            ]),
            "Hm\nI look.\n▸ Run tests { \"command\": \"make\" }\n  Run tests failed\n  one\n  two\nDone.\n"
        );
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let output: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let shown = shown(&[tool(Some("t"), "completed", None, Some(&output))]);
        assert!(shown.starts_with("▸ t\n  … 12 lines\n  line 13\n"), "{shown}");
    }
}

//! Shows agents' text to people: each sigil becomes an event in words, on a line of its own, in whatever
//! pieces the text arrives.

use super::name::SigilName;
use super::scan::{Scanner, Shape};

/// A sigil that isn't closed within this much text is shown unclosed. Bytes.
const MAX_BUFFERED: usize = 64 * 1024;
/// Longest text at the end of a piece that is held back, since it may become a tag. Bytes.
const TAG: usize = 512;

/// A growing text on its way to a person.
#[derive(Debug, Default)]
pub struct ShownText {
    held: String,
    /// Whether the last output ended within a line.
    line_is_open: bool,
    /// Whether the last output was an event.
    after_event: bool,
}

impl ShownText {
    /// Adds a piece, and returns what can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.take_shown(false)
    }

    /// Returns the rest; nothing may follow.
    pub fn finish(&mut self) -> String {
        let rest = self.take_shown(true);
        self.line_is_open = false;
        rest
    }

    fn take_shown(&mut self, all: bool) -> String {
        let text = std::mem::take(&mut self.held);
        let mut out = String::new();
        let mut at = 0;
        let tags = Scanner::new(&text);
        for tag in tags {
            // The tag is within a sigil that was shown whole.
            if tag.start < at {
                continue;
            }
            match tag.shape {
                Shape::Broken if all || tag.end < text.len() => {}
                Shape::Broken => {
                    self.plain(&mut out, &text[at..tag.start]);
                    text[tag.start..].clone_into(&mut self.held);
                    return out;
                }
                Shape::Close => {
                    self.plain(&mut out, &text[at..tag.start]);
                    at = tag.end;
                }
                Shape::SelfClosing => {
                    self.plain(&mut out, &text[at..tag.start]);
                    self.event(&mut out, &words(tag.name, ""));
                    at = tag.end;
                }
                Shape::Open => {
                    let rest = Scanner::new(&text[tag.end..]);
                    let close = { rest }.find(|other| other.shape == Shape::Close && other.name == tag.name);
                    self.plain(&mut out, &text[at..tag.start]);
                    let Some(close) = close else {
                        if all || text.len() - tag.start > MAX_BUFFERED {
                            self.event(&mut out, &words(tag.name, &text[tag.end..]));
                        } else {
                            text[tag.start..].clone_into(&mut self.held);
                        }
                        return out;
                    };
                    self.event(&mut out, &words(tag.name, &text[tag.end..tag.end + close.start]));
                    at = tag.end + close.end;
                }
            }
        }
        let rest = &text[at..];
        let open = rest
            .rfind('<')
            .filter(|open| !rest[*open..].contains('>') && rest.len() - open < TAG);
        match open.filter(|_| !all) {
            Some(open) => {
                self.plain(&mut out, &rest[..open]);
                rest[open..].clone_into(&mut self.held);
            }
            None => self.plain(&mut out, rest),
        }
        out
    }

    fn plain(&mut self, out: &mut String, text: &str) {
        // A line with only a sigil leaves no empty line.
        let shown = match self.after_event {
            true => text.strip_prefix('\n').unwrap_or(text),
            false => text,
        };
        self.after_event &= text.is_empty();
        if !shown.is_empty() {
            out.push_str(shown);
            self.line_is_open = !shown.ends_with('\n');
        }
    }

    fn event(&mut self, out: &mut String, words: &str) {
        if self.line_is_open {
            out.push('\n');
        }
        out.push_str(words);
        out.push('\n');
        (self.line_is_open, self.after_event) = (false, true);
    }
}

fn words(name: SigilName, inner: &str) -> String {
    let inner = inner.trim();
    let with_text = |words: &str| match inner {
        "" => words.to_owned(),
        inner => format!("{words}: {inner}"),
    };
    match name {
        SigilName::TaskDone => "✓ says done".to_owned(),
        SigilName::TaskFailed => "✗ says failed".to_owned(),
        SigilName::Promise => format!("• promises {}", inner.to_lowercase()),
        SigilName::NextModel => with_text("• asks for the model"),
        SigilName::Journal => with_text("• journal"),
        SigilName::Knowledge => with_text("• notes a fact"),
        SigilName::FailureReport => with_text("✗ failure report"),
        SigilName::RetrySuggestion => with_text("• suggests for the next attempt"),
        SigilName::Learning => with_text("• learned"),
        SigilName::DifficultyEstimate => with_text("• difficulty"),
        SigilName::TaskGraph => with_text("• proposes tasks"),
        SigilName::Memory => with_text("• remembers"),
        SigilName::Question => with_text("? asks"),
        SigilName::VerifyPass => "✓ verified".to_owned(),
        SigilName::VerifyFail => with_text("✗ not verified"),
        SigilName::ReviewPass => "✓ reviewed".to_owned(),
        SigilName::ReviewChanges => with_text("✗ asks for changes"),
        SigilName::Used => "• says which entries helped or misled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        // Whole, and one character at a time.
        let mut shown = ShownText::default();
        let whole = shown.push(text) + &shown.finish();
        assert_eq!(whole, expected, "{text}");
        let mut shown = ShownText::default();
        let mut grown: String = text.chars().map(|c| shown.push(&c.to_string())).collect();
        grown.push_str(&shown.finish());
        assert_eq!(grown, expected, "piece by piece: {text}");
    }

    #[test]
    fn a_sigil_is_an_event_on_a_line_of_its_own() {
        check(
            "It works.\n<task-done>t-1</task-done>\n",
            "It works.\n✓ says done\n",
        );
        check(
            "so <task-failed>t-1</task-failed> then",
            "so \n✗ says failed\n then",
        );
        check("ok\n<verify-pass/>", "ok\n✓ verified\n");
        check(
            "a\n<learning category=\"x\" tags=\"t\">Use UTC.</learning>\nb",
            "a\n• learned: Use UTC.\nb",
        );
        check("a\n<verify-fail>no tests", "a\n✗ not verified: no tests\n");
        for same in [
            "",
            "if a < b {}",
            "Vec<u8> <b>",
            "end <",
            "a <task-do",
            "<p>x</p>",
        ] {
            check(same, same);
        }
    }

    #[test]
    fn an_unclosed_sigil_is_shown_after_a_bounded_length() {
        let mut shown = ShownText::default();
        let shown_text = shown.push(&format!("\n<journal>{}", "x".repeat(MAX_BUFFERED)));
        assert!(shown_text.contains("journal: x"), "{} bytes", shown_text.len());
    }
}

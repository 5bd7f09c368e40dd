//! What agents say, as people read it: each sigil is an event in words, on a line of its own, whatever pieces the text comes in.

use super::name::SigilName;
use super::scan::{Scanner, Shape};

/// A sigil that isn't closed within so much text is shown as far as it came. Bytes.
const MAX_BUFFERED: usize = 64 * 1024;
/// What may become a tag is waited for at the end of a piece, up to so much. Bytes.
const TAG: usize = 512;

/// A text that grows, on its way to a person.
#[derive(Debug, Default)]
pub struct ShownText {
    held: String,
    /// What was told last ends no line.
    line_is_open: bool,
    /// What was told last is an event.
    after_event: bool,
}

impl ShownText {
    /// What can be told now that this came.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.take_shown(false)
    }

    /// What is left, when nothing follows.
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
            // Within a sigil that was told whole.
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
        // A line that held nothing but a sigil is no empty one.
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
    let said = |words: &str| match inner {
        "" => words.to_owned(),
        inner => format!("{words}: {inner}"),
    };
    match name {
        SigilName::TaskDone => "✓ says done".to_owned(),
        SigilName::TaskFailed => "✗ says failed".to_owned(),
        SigilName::Promise => format!("• promises {}", inner.to_lowercase()),
        SigilName::NextModel => said("• asks for the model"),
        SigilName::Journal => said("• journal"),
        SigilName::Knowledge => said("• notes a fact"),
        SigilName::FailureReport => said("✗ failure report"),
        SigilName::RetrySuggestion => said("• suggests for the next attempt"),
        SigilName::Learning => said("• learned"),
        SigilName::DifficultyEstimate => said("• difficulty"),
        SigilName::TaskGraph => said("• proposes tasks"),
        SigilName::Memory => said("• remembers"),
        SigilName::Question => said("? asks"),
        SigilName::VerifyPass => "✓ verified".to_owned(),
        SigilName::VerifyFail => said("✗ not verified"),
        SigilName::ReviewPass => "✓ reviewed".to_owned(),
        SigilName::ReviewChanges => said("✗ asks for changes"),
        SigilName::Used => "• says which entries helped or misled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        // Whole, and a character at a time.
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
    fn what_never_closes_is_not_held_for_ever() {
        let mut shown = ShownText::default();
        let told = shown.push(&format!("\n<journal>{}", "x".repeat(MAX_BUFFERED)));
        assert!(told.contains("journal: x"), "{} bytes", told.len());
    }
}

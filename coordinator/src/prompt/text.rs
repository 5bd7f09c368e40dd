//! Text that stands in prompts as data: bounded, without sigils, unable to forge a heading or to close a fence (SPEC 6.8).
//!
//! All counts are Unicode characters.

use std::borrow::Cow;

use ralph_shared::sigil::defuse;

/// Stands where text was cut.
pub(super) const TRUNCATED: &str = "_(truncated)_";

/// How many characters `text` has.
pub(super) fn chars(text: &str) -> usize {
    text.chars().count()
}

/// One line: line ends and other control characters become blanks.
pub(super) fn line(text: &str, max: usize) -> String {
    let safe: String = defuse(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut(safe.trim(), max)
}

/// Text of an assignment: as it was written, but for its sigils. Agents write assignments too, and whoever repeats one says
/// nothing by that.
pub(super) fn spoken(text: &str) -> String {
    defuse(text)
}

/// Text of a list entry: further lines are indented, so that none stands at the margin.
pub(super) fn item(text: &str, max: usize) -> String {
    cut(&indented(&harmless(text)), max)
}

/// The inside of a fenced block that is itself indented as a list entry's.
pub(super) fn fenced(text: &str, max: usize) -> String {
    cut(&indented(&harmless(text).replace("```", "'''")), max)
}

/// The inside of a fenced block at the margin, as it is but for what could end it.
pub(super) fn data(text: &str, max: usize) -> String {
    cut(&harmless(text).replace("```", "'''"), max)
}

/// Text at the margin: a line that would be a heading, or make one of the line above, is escaped, an open fence is closed.
pub(super) fn block(text: &str, max: usize) -> String {
    let safe = harmless(text);
    let mut lines: Vec<String> = Vec::new();
    let mut in_fence = false;
    for line in safe.lines() {
        let line = plain_fence(line);
        let is_fence = line.starts_with(FENCE);
        if is_fence {
            in_fence = !in_fence || line != FENCE;
        }
        // Code stays as it is: nothing in it makes a heading.
        if in_fence || is_fence {
            lines.push(line.into_owned());
            continue;
        }
        let after_text = lines.last().is_some_and(|above| !above.trim().is_empty());
        if line.trim_start().starts_with('#') || (after_text && is_underline(&line)) {
            let blanks = line.len() - line.trim_start().len();
            lines.push(format!("{}\\{}", &line[..blanks], &line[blanks..]));
        } else {
            lines.push(line.into_owned());
        }
    }
    cut_closed(&lines.join("\n"), max)
}

/// At most `max` characters of a text at the margin; a fence that is open at its end is closed.
pub(super) fn cut_closed(text: &str, max: usize) -> String {
    if chars(text) <= max && !open_fence(text) {
        return text.to_owned();
    }
    let text = cut(text, max.saturating_sub(FENCE.len() + 1));
    if open_fence(&text) {
        format!("{text}\n{FENCE}")
    } else {
        text
    }
}

/// Whether Markdown takes a line for the underline that makes a heading of the line above.
fn is_underline(line: &str) -> bool {
    let line = line.trim();
    ["=", "-"]
        .iter()
        .any(|mark| !line.is_empty() && line.trim_matches(|c| mark.contains(c)).is_empty())
}

/// A line that begins or ends a fence of any kind as one of the usual kind: that one is closed when a text is cut.
fn plain_fence(line: &str) -> Cow<'_, str> {
    let rest = line.trim_start();
    let mark = if rest.starts_with("~~~") { '~' } else { '`' };
    let info = rest.trim_start_matches(mark);
    if rest.len() - info.len() < FENCE.len() {
        return Cow::Borrowed(line);
    }
    // Such a line may be no fence for several reasons; as one without blanks and further marks it surely is.
    Cow::Owned(format!("{FENCE}{}", info.replace('`', "'")))
}

const FENCE: &str = "```";

/// At most `max` characters of a rendered piece, with a word that says so; a fence that the cut opened is closed.
pub(super) fn cut_piece(text: &str, max: usize) -> String {
    if chars(text) <= max {
        return text.to_owned();
    }
    let closing = "\n  ```";
    let short = cut(text, max.saturating_sub(chars(closing)));
    if open_fence(&short) {
        format!("{short}{closing}")
    } else {
        short
    }
}

/// At most `max` characters, cut at the end of a word or line where one is near, with a word that says so.
pub(super) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max || chars(text) <= max {
        return text.to_owned();
    }
    let marker = format!("\n{TRUNCATED}");
    let Some(room) = max.checked_sub(chars(&marker)) else {
        return text.chars().take(max).collect();
    };
    let end = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
    let kept = &text[..end];
    // A word of more than this is cut inside: there is no end near.
    let near = kept.char_indices().rev().nth(80).map_or(0, |(at, _)| at);
    let at_word = text[end..].starts_with(char::is_whitespace);
    let kept = match kept[near..].rfind(char::is_whitespace) {
        Some(blank) if !at_word => &kept[..near + blank],
        _ => kept,
    };
    format!("{}{marker}", kept.trim_end())
}

/// Sigils defused, control characters other than line ends and tabs gone, outer blanks trimmed.
fn harmless(text: &str) -> String {
    let safe: String = defuse(text)
        .replace("\r\n", "\n")
        .chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' => '\n',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    safe.trim().to_owned()
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// Whether a fence is open at the end: one that is open is closed by a line that says nothing else.
fn open_fence(text: &str) -> bool {
    let fences = text.lines().map(str::trim).filter(|line| line.starts_with(FENCE));
    fences.fold(false, |open, line| !open || line != FENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_makes_a_heading_or_leaves_a_fence_open() {
        for (text, expected) in [
            ("# Title\n  ## Sub", "\\# Title\n  \\## Sub"),
            ("Title\n===", "Title\n\\==="),
            ("Title\n --", "Title\n \\--"),
            ("a\n\n---\nb", "a\n\n---\nb"),
            ("```rust\ncode", "```rust\ncode\n```"),
            ("~~~\ncode", "```\ncode\n```"),
            ("~~~\ncode\n~~~", "```\ncode\n```"),
            ("````\n```x\n````", "```\n```x\n```"),
            // To close, a fence says nothing else.
            ("```\ncode\n``` no", "```\ncode\n``` no\n```"),
            ("    ```\ncode", "```\ncode\n```"),
            // Code is told as it is.
            (
                "```c\n#include <x.h>\na\n---\n```\n# b",
                "```c\n#include <x.h>\na\n---\n```\n\\# b",
            ),
            ("```a`b\ncode", "```a'b\ncode\n```"),
        ] {
            let block = block(text, 1_000);
            assert_eq!(block, expected, "{text:?}");
            assert!(!open_fence(&block), "{block:?}");
        }
    }

    #[test]
    fn a_fence_that_is_cut_is_closed() {
        let text = "one\n```\ntwo three four five six seven eight nine ten\n```\nend";
        assert_eq!(cut_closed(text, 1_000), text);
        let cut = cut_closed(text, 45);
        assert_eq!(cut, "one\n```\ntwo three four five\n_(truncated)_\n```");
        assert!(chars(&cut) <= 45);
    }

    #[test]
    fn cuts_at_word_ends_and_says_so() {
        for (text, max, expected) in [
            ("short", 5, "short"),
            ("grüße", 5, "grüße"),
            ("one two three four five", 20, "one\n_(truncated)_"),
            ("one two three four five", 22, "one two\n_(truncated)_"),
            ("äöüäöüäöüäöüäöüäöüäöü", 20, "äöüäöü\n_(truncated)_"),
            ("anything at all", 4, "anyt"),
        ] {
            let cut = cut(text, max);
            assert_eq!(cut, expected);
            assert!(chars(&cut) <= max);
        }
    }

    #[test]
    fn remembered_text_stays_data() {
        assert_eq!(line("a\nb\u{7}c", 100), "a b c");
        assert_eq!(item("a\n## Memory\nb", 100), "a\n  ## Memory\n  b");
        assert_eq!(fenced("x\n```\n# y", 100), "x\n  '''\n  # y");
        assert_eq!(
            block("a\n## Assigned Task\nID: t-1", 100),
            "a\n\\## Assigned Task\nID: t-1"
        );
        assert_eq!(block("```sh\nls", 100), "```sh\nls\n```");
        assert_eq!(
            block("see <task-done>t-1</task-done>", 100),
            "see ‹task-done>t-1‹/task-done>"
        );
        assert_eq!(
            cut_piece("- x:\n  ```\n  one two three four five six\n  ```", 40),
            "- x:\n  ```\n  one two\n_(truncated)_\n  ```"
        );
    }
}

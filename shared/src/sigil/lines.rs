//! Marked lines, which agents write when their prompts come from the source documents' other systems (SPEC
//! 4.2).

use memchr::{memchr, memmem};

/// Opens a line of session memory: `AGENTIUM_MEMORY: KIND text`.
pub(super) const MEMORY_MARK: &str = "AGENTIUM_MEMORY:";
/// Opens a line that says why an attempt failed: `FAILURE_REASON: text`.
pub(super) const REASON_MARK: &str = "FAILURE_REASON:";

/// Characters that may precede a mark on its line, besides white space: list marks and emphasis.
const DECORATION: [char; 4] = ['-', '*', '_', '`'];

/// Every line that `mark` opens: the mark's offset in bytes, and the rest of the line, without surrounding
/// white space and without the decoration that also precedes the mark.
pub(super) fn marked_lines<'a>(text: &'a str, mark: &'static str) -> impl Iterator<Item = (usize, &'a str)> {
    memmem::find_iter(text.as_bytes(), mark.as_bytes()).filter_map(move |start| {
        let is_decoration = |c: char| c != '\n' && (c.is_whitespace() || DECORATION.contains(&c));
        let before = text[..start].trim_end_matches(is_decoration);
        if !before.is_empty() && !before.ends_with('\n') {
            return None;
        }
        let decoration = &text[before.len()..start];
        let rest = &text[start + mark.len()..];
        let line = &rest[..memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len())];
        let around = |c: char| c.is_whitespace() || (DECORATION.contains(&c) && decoration.contains(c));
        Some((start, line.trim_matches(around)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decoration_may_precede_a_mark_on_its_line() {
        for (text, expected) in [
            ("FAILURE_REASON: no disk", &["no disk"][..]),
            ("a\r\n  FAILURE_REASON:no disk\r\nb", &["no disk"]),
            (
                "- **FAILURE_REASON:** no - disk\n`FAILURE_REASON: two`",
                &["no - disk", "two"],
            ),
            ("FAILURE_REASON: a_ FAILURE_REASON: b", &["a_ FAILURE_REASON: b"]),
            ("FAILURE_REASON:\n", &[""]),
            ("write FAILURE_REASON: text", &[]),
            ("> FAILURE_REASON: quoted", &[]),
            ("MY_FAILURE_REASON: x", &[]),
            ("\u{a0}FAILURE_REASON: ü", &["ü"]),
        ] {
            let lines: Vec<&str> = marked_lines(text, REASON_MARK).map(|(_, line)| line).collect();
            assert_eq!(lines, expected, "{text:?}");
        }
    }
}

//! Extracts the text of a `spec` or a `plan` session (SPEC 5).
//!
//! Agents talk while they work, so the prompt asks them to put the text between two marks. Without marks, the
//! whole message text counts.

const OPEN: &str = "<document>";
const CLOSE: &str = "</document>";

/// Longest text, since every claim of the feature reads it. Bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// The document in an agent's message text: the part between the last pair of marks, else the whole. `None`
/// when that is blank.
pub fn document(text: &str) -> Option<&str> {
    let found = marked(text).unwrap_or(text.trim());
    let found = &found[..found.floor_char_boundary(MOST_BYTES)];
    (!found.is_empty()).then_some(found)
}

/// The part between the last pair of marks; `None` without a pair or content. Marks alone on their lines, as
/// requested, precede those within a line, since agents and documents also mention them.
pub fn marked(text: &str) -> Option<&str> {
    let found = between_lines(text).or_else(|| {
        let end = text.rfind(CLOSE)?;
        let begin = text[..end].rfind(OPEN)? + OPEN.len();
        Some(&text[begin..end])
    })?;
    let found = found.trim();
    (!found.is_empty()).then_some(found)
}

/// The part between the last closing line and its opening line.
fn between_lines(text: &str) -> Option<&str> {
    let mut end = None;
    let mut depth = 0;
    let mut begin = text.len();
    for line in text.split_inclusive('\n').rev() {
        begin -= line.len();
        match line.trim() {
            CLOSE => {
                end.get_or_insert(begin);
                depth += 1;
            }
            OPEN if depth > 0 => depth -= 1,
            _ => continue,
        }
        if let (0, Some(end)) = (depth, end) {
            return Some(&text[begin + line.len()..end]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_marked_text_counts_else_the_whole_text() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(document(text), expected, "{text:?}");
        check(
            "I look.\n<document>\n# A\n\nb\n</document>\nDone.",
            Some("# A\n\nb"),
        );
        check(
            "<document>draft</document> better: <document>final</document>",
            Some("final"),
        );
        check(
            "<document>\n# A\n</document>\nIt stands between `<document>` and `</document>`.",
            Some("# A"),
        );
        check(
            "<document>\ncut off\n<document>\n# Marks\nA text in `<document>` or\n<document>\nx\n</document>\n</document>\n",
            Some("# Marks\nA text in `<document>` or\n<document>\nx\n</document>"),
        );
        check("the spec\n", Some("the spec"));
        check("cut off <document> here", Some("cut off <document> here"));
        check("</document> late <document>", Some("</document> late <document>"));
        check("<document> </document>", Some("<document> </document>"));
        check(" \n", None);
        let long = "ä".repeat(MOST_BYTES);
        assert_eq!(document(&long).map(str::len), Some(MOST_BYTES));
    }
}

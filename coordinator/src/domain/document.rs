//! The text that a `spec` or a `plan` session leaves (SPEC 5).
//!
//! Agents talk while they work, so the prompt asks them to put the text between two marks; one that forgot them wrote
//! nothing but the text, or its talk has to do.

const OPEN: &str = "<document>";
const CLOSE: &str = "</document>";

/// More is cut off: it would be read with every claim of the feature. Bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// The document in an agent's whole message text: what stands between the last pair of marks, else all of it. `None` when
/// that is blank.
pub fn document(text: &str) -> Option<&str> {
    let found = marked(text).unwrap_or(text.trim());
    let found = &found[..found.floor_char_boundary(MOST_BYTES)];
    (!found.is_empty()).then_some(found)
}

/// What stands between the last pair of marks; `None` when there is no pair, or nothing in it.
pub fn marked(text: &str) -> Option<&str> {
    let end = text.rfind(CLOSE)?;
    let begin = text[..end].rfind(OPEN)? + OPEN.len();
    let found = text[begin..end].trim();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_marked_text_wins_and_all_of_it_is_better_than_nothing() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(document(text), expected, "{text:?}");
        check(
            "I look.\n<document>\n# A\n\nb\n</document>\nDone.",
            Some("# A\n\nb"),
        );
        check(
            "<document>draft</document> better: <document>final</document>",
            Some("final"),
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

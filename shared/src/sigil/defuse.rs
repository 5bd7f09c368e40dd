//! Remembered text is data: an agent that repeats it must not write a sigil (SPEC 6.8).

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::lines::{MEMORY_MARK, REASON_MARK};
use super::name::SigilName;
use super::scan::next_name;

/// Replaces the `<` of a sigil's tag: U+2039, which looks like it.
const ANGLE: &str = "‹";
/// Replaces the `:` of a line's mark: U+2236, which looks like it.
const COLON: &str = "∶";

/// The marks of lines. Made once, since making one costs more than searching most texts.
static MARKS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [MEMORY_MARK, REASON_MARK].map(|mark| Finder::new(mark.as_bytes())));

/// `text` with every sigil and marked line made harmless: nothing in the result parses as one, for any kind
/// of session, whatever text surrounds it line by line.
///
/// One character replaces one, so the length in characters stays. Text without sigils comes back unchanged,
/// and so does defused text.
#[must_use]
pub fn defuse(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut exchanges: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    while let Some(found) = next_name(bytes, at) {
        exchanges.push((found.start, ANGLE));
        at = found.name_end;
    }
    for mark in MARKS.iter() {
        let colon = mark.needle().len() - 1;
        exchanges.extend(mark.find_iter(bytes).map(|start| (start + colon, COLON)));
    }
    exchanges.sort_unstable_by_key(|&(at, _)| at);

    let mut safe = String::with_capacity(text.len() + exchanges.len() * ANGLE.len());
    let mut kept = 0;
    for (at, replacement) in exchanges {
        safe.push_str(&text[kept..at]);
        safe.push_str(replacement);
        kept = at + 1;
    }
    safe.push_str(&text[kept..]);
    safe
}

/// `text` with only its task graphs made harmless, since a later one replaces them.
#[must_use]
pub fn defuse_graphs(text: &str) -> String {
    let bytes = text.as_bytes();
    let graph = SigilName::TaskGraph.into_str().as_bytes();
    let mut safe = String::with_capacity(text.len() + ANGLE.len());
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = next_name(bytes, at) {
        if bytes[..found.name_end].ends_with(graph) {
            safe.push_str(&text[kept..found.start]);
            safe.push_str(ANGLE);
            kept = found.start + 1;
        }
        at = found.name_end;
    }
    safe.push_str(&text[kept..]);
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_task_graphs_are_defused() {
        let text = "<journal>j</journal> <task-graph>[]</task-graph> <task-graphs>";
        let expected = "<journal>j</journal> ‹task-graph>[]‹/task-graph> <task-graphs>";
        assert_eq!(defuse_graphs(text), expected);
        assert_eq!(defuse_graphs(expected), expected);
    }

    #[test]
    fn sigils_stay_readable_and_other_text_stays_as_it_is() {
        for (text, expected) in [
            ("", ""),
            (
                "if a < b { Vec<u8> } <b>ü</b> <journals>",
                "if a < b { Vec<u8> } <b>ü</b> <journals>",
            ),
            (
                "end with <task-done>t-1</task-done>.",
                "end with ‹task-done>t-1‹/task-done>.",
            ),
            (
                "<verify-pass/> <knowledge title='",
                "‹verify-pass/> ‹knowledge title='",
            ),
            ("<<journal", "<‹journal"),
            (
                "so FAILURE_REASON: x\nAGENTIUM_MEMORY: DECISION y",
                "so FAILURE_REASON∶ x\nAGENTIUM_MEMORY∶ DECISION y",
            ),
        ] {
            assert_eq!(defuse(text), expected);
            assert_eq!(defuse(expected), expected);
        }
    }
}

//! Requirements on a body or an attribute, and the marks of a placeholder.

use std::collections::HashSet;

/// The reason why a complete sigil is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is a form of the prompt; not counted.
    Placeholder,
    /// A required part is missing, empty or unknown; counted.
    Malformed,
}

/// Longest placeholder in braces; a longer text is content. Bytes.
const PLACEHOLDER_BYTES: usize = 200;

/// `text` without surrounding white space; an error if it is empty or a placeholder.
pub(super) fn required(text: &str) -> Result<&str, Fault> {
    let text = text.trim();
    if text.is_empty() {
        Err(Fault::Malformed)
    } else if is_placeholder(text) {
        Err(Fault::Placeholder)
    } else {
        Ok(text)
    }
}

/// [`required`], for an attribute that may be missing.
pub(super) fn required_attribute(value: Option<&str>) -> Result<&str, Fault> {
    required(value.ok_or(Fault::Malformed)?)
}

/// Whether `text` has only dots (`…`, `...`) or one phrase in curly braces (`{the task's ID}`). A colon, a
/// quote or a line end inside the braces makes it data.
pub(super) fn is_placeholder(text: &str) -> bool {
    let only_dots = || text.chars().all(|c| matches!(c, '.' | '…'));
    let phrase = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    phrase.map_or_else(only_dots, |phrase| {
        phrase.len() <= PLACEHOLDER_BYTES && !phrase.contains(['{', '}', ':', '"', '\n'])
    })
}

/// The items of a comma-separated list: white space inside an item becomes single spaces, and empty and
/// repeated items are dropped. At least one must remain.
pub(super) fn required_list(value: Option<&str>, fold: fn(&str) -> String) -> Result<Vec<String>, Fault> {
    let mut seen = HashSet::new();
    let list: Vec<String> = required_attribute(value)?
        .split(',')
        .map(|item| fold(&one_line(item)))
        .filter(|item| !item.is_empty() && seen.insert(item.clone()))
        .collect();
    if list.is_empty() {
        Err(Fault::Malformed)
    } else {
        Ok(list)
    }
}

/// `text` on one line: every run of white space becomes one space, none stays at the ends.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_placeholders_and_data_is_not() {
        for text in ["…", "...", "{}", "{the task's ID}"] {
            assert_eq!(
                required(&format!("\n {text} ")),
                Err(Fault::Placeholder),
                "{text:?}"
            );
        }
        for text in ["a…", "{a} b", "{\"key\": 1}", "{key: a}", "{a\nb}", "{{a}}", "ID"] {
            assert_eq!(required(text), Ok(text));
        }
        let long = format!("{{{}}}", "x".repeat(PLACEHOLDER_BYTES + 1));
        assert_eq!(required(&long), Ok(long.as_str()));
        assert_eq!(required(" \u{a0}\n"), Err(Fault::Malformed));
    }

    #[test]
    fn lists_lose_empty_and_repeated_items() {
        let list = |value| required_list(Some(value), str::to_lowercase);
        assert_eq!(
            list("A, b\n c ,,a, É"),
            Ok(vec!["a".into(), "b c".into(), "é".into()])
        );
        assert_eq!(list(" ,, "), Err(Fault::Malformed));
        assert_eq!(list("..."), Err(Fault::Placeholder));
        assert_eq!(required_list(None, str::to_owned), Err(Fault::Malformed));
    }
}

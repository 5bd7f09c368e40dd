//! Estimates the tokens of a prompt's sections.

use super::text::chars;

/// Approximate characters per token; agents' models differ by at most a third.
const CHARS_PER_TOKEN: usize = 4;

/// Approximate number of tokens of a text.
pub fn tokens(text: &str) -> usize {
    chars(text).div_ceil(CHARS_PER_TOKEN)
}

/// The sections of a prompt in order, with the approximate tokens of each. The text before the first heading
/// counts as `Instructions`.
pub fn by_section(prompt: &str) -> Vec<(String, usize)> {
    let mut sections = vec![("Instructions".to_owned(), String::new())];
    for line in prompt.split_inclusive('\n') {
        let heading = line.strip_prefix("## ").or_else(|| line.strip_prefix("### "));
        if let Some(heading) = heading {
            sections.push((heading.trim().to_owned(), String::new()));
        }
        if let Some((_, text)) = sections.last_mut() {
            text.push_str(line);
        }
    }
    let counted = sections
        .into_iter()
        .map(|(name, text)| (name, tokens(text.trim())));
    counted.filter(|(_, tokens)| *tokens > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_begins_a_section() {
        let prompt = "You work.\n\n## Assigned Task\n\n    ## no heading\n> ### nor this\n### The Gate\n\n- `make test`\n";
        let sections = by_section(prompt);
        let names: Vec<&str> = sections.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Instructions", "Assigned Task", "The Gate"]);
        let sum: usize = sections.iter().map(|(_, tokens)| tokens).sum();
        assert!(sum.abs_diff(tokens(prompt)) <= sections.len());
        assert_eq!(tokens("äöüä"), 1);
    }
}

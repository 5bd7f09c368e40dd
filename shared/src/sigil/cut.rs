//! Shortens text at the end of a word or a line, by Unicode characters (SPEC 4.3).

/// The longest beginning of `text` of at most `max_chars` characters that ends with a word. Only a first word
/// that is longer than the limit is cut itself.
pub(super) fn cut_at_word(text: &str, max_chars: usize) -> &str {
    let Some((end, next)) = text.char_indices().nth(max_chars) else {
        return text;
    };
    let kept = &text[..end];
    let whole_words = if next.is_whitespace() {
        Some(end)
    } else {
        kept.rfind(char::is_whitespace)
    };
    match whole_words.map(|end| kept[..end].trim_end()) {
        Some(words) if !words.is_empty() => words,
        _ => kept,
    }
}

/// The longest beginning of `text` of at most `max_chars` characters that ends with a line; [`cut_at_word`]
/// where the first line is longer than that.
pub(super) fn cut_at_line(text: &str, max_chars: usize) -> &str {
    let Some((end, next)) = text.char_indices().nth(max_chars) else {
        return text;
    };
    let kept = &text[..end];
    let whole_lines = if next == '\n' { Some(end) } else { kept.rfind('\n') };
    match whole_lines.map(|end| kept[..end].trim_end()) {
        Some(lines) if !lines.is_empty() => lines,
        _ => cut_at_word(text, max_chars),
    }
}

/// The longest end of `text` of at most `max_chars` characters that begins with a line, else with a word.
pub(super) fn last_lines(text: &str, max_chars: usize) -> &str {
    let Some((start, _)) = text.char_indices().rev().nth(max_chars.saturating_sub(1)) else {
        return text;
    };
    let kept = &text[start..];
    let begins_after = |end: char| text[..start].ends_with(end);
    if start == 0 || begins_after('\n') {
        return kept;
    }
    if let Some((_, lines)) = kept.split_once('\n')
        && !lines.trim().is_empty()
    {
        return lines;
    }
    match kept.split_once(char::is_whitespace) {
        Some((_, words)) if !begins_after(' ') && !words.trim().is_empty() => words,
        _ => kept,
    }
}

/// The beginning of `text` up to the end of its word number `max_words`; `None` if it has no more words.
pub(super) fn cut_after_words(text: &str, max_words: usize) -> Option<&str> {
    let mut words = text.split_whitespace();
    let last = words.nth(max_words.checked_sub(1)?)?;
    words.next()?;
    let end = last.as_ptr().addr() - text.as_ptr().addr() + last.len();
    Some(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        for (text, max_chars, expected) in [
            ("one two three", 13, "one two three"),
            ("one two three", 12, "one two"),
            ("one two three", 7, "one two"),
            ("one two three", 6, "one"),
            ("one  two", 4, "one"),
            ("ünïcödé wörds", 9, "ünïcödé"),
            ("endless", 3, "end"),
            (" endless", 3, " en"),
            ("x", 0, ""),
            ("", 5, ""),
        ] {
            assert_eq!(cut_at_word(text, max_chars), expected, "{text:?} {max_chars}");
        }
    }

    #[test]
    fn lines_stay_whole() {
        for (text, max_chars, expected) in [
            ("a b\nc d", 7, "a b\nc d"),
            ("a b\nc d", 6, "a b"),
            ("a b\nc d", 3, "a b"),
            ("a b\nc d", 2, "a"),
            ("ä\r\nbc", 4, "ä"),
            ("\n\nabc def", 7, "\n\nabc"),
        ] {
            assert_eq!(cut_at_line(text, max_chars), expected, "{text:?} {max_chars}");
        }
    }

    #[test]
    fn last_lines_begin_with_a_line_or_a_word() {
        for (text, max_chars, expected) in [
            ("a\nb c", 5, "a\nb c"),
            ("a\nb c", 4, "b c"),
            ("a\nb c", 3, "b c"),
            ("a\nb c", 2, "c"),
            ("a\nbcd", 2, "cd"),
            ("one two", 5, "two"),
            ("one two", 3, "two"),
            ("", 3, ""),
        ] {
            assert_eq!(
                last_lines(text, max_chars).trim_start(),
                expected,
                "{text:?} {max_chars}"
            );
        }
    }

    #[test]
    fn words_are_counted_by_white_space() {
        assert_eq!(cut_after_words("a\tb\n\nc d", 2), Some("a\tb"));
        assert_eq!(cut_after_words("a b ", 2), None);
        assert_eq!(cut_after_words("ä ö ü", 2), Some("ä ö"));
    }
}

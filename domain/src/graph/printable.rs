//! Makes foreign text safe for one line of a terminal.

use std::fmt::Write;

use ralph_shared::plain::is_invisible;

/// `text` on one line of at most `max_chars` characters. Characters that could move the cursor or change the
/// reading direction are escaped, and a cut ends in `…`.
pub fn clip(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    for (taken, c) in text.chars().enumerate() {
        if taken == max_chars {
            line.push('…');
            break;
        }
        if is_hidden(c) {
            let _ = write!(line, "{}", c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    line
}

/// `text` between backticks, short enough for an error.
pub fn quote(text: &str) -> String {
    if text.is_empty() {
        "an empty text".to_owned()
    } else {
        format!("`{}`", clip(text, 60))
    }
}

/// Whether `c` is a control character, or one that changes how its neighbours are shown.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipped_text_contains_no_control_characters() {
        assert_eq!(
            clip("a\u{1b}[2Jb\nc\u{202e}d", 60),
            "a\\u{1b}[2Jb\\u{a}c\\u{202e}d"
        );
        assert_eq!(clip("äöüß", 3), "äöü…");
        assert_eq!(quote("plain"), "`plain`");
    }
}

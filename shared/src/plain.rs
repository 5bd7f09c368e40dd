//! Text for people and for prompts, without control of the terminal.
//!
//! Agents and their commands colour their output, set titles and draw progress bars. Control sequences are
//! removed whole: without its first character, the rest of a sequence (`[31m`) is noise, and may hide a sigil
//! or a known error.

use std::borrow::Cow;

/// The text without control sequences and control characters. Line ends and tabs stay. A carriage return that
/// ends no line becomes a line end, so that the text that it would overwrite has a line of its own.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let text = without_sequences(text).replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(text.replace(is_odd, ""))
}

/// Whether a character takes no space, or changes the direction of text: such characters tell a machine what
/// no person sees.
pub const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The text without invisible characters.
pub fn visible(text: &str) -> Cow<'_, str> {
    match text.contains(is_invisible) {
        true => Cow::Owned(text.replace(is_invisible, "")),
        false => Cow::Borrowed(text),
    }
}

fn is_odd(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// The text without control sequences (CSI, OSC, DCS and the like, single escapes), each removed whole, also
/// if its first character is a C1 control. Other control characters stay.
pub fn without_sequences(text: &str) -> Cow<'_, str> {
    let introduces = |c: char| matches!(c, '\u{1b}' | '\u{80}'..='\u{9f}');
    let Some(first) = text.find(introduces) else {
        return Cow::Borrowed(text);
    };
    let mut bare = text[..first].to_owned();
    let mut rest = &text[first..];
    while let Some(at) = rest.find(introduces) {
        bare.push_str(&rest[..at]);
        rest = behind_sequence(&rest[at..]);
    }
    bare.push_str(rest);
    Cow::Owned(bare)
}

/// The text after the sequence that it begins with.
fn behind_sequence(text: &str) -> &str {
    let mut chars = text.chars();
    let kind = match chars.next() {
        Some('\u{1b}') => chars.next(),
        // ESC and a character of `@` to `_` equal one C1 control.
        Some(c1) => char::from_u32(u32::from(c1).saturating_sub(0x40)),
        None => return text,
    };
    let rest = chars.as_str();
    let behind = |rest: &'_ str, many: fn(char) -> bool, last: fn(char) -> bool| {
        let end = rest.len() - rest.trim_start_matches(many).len();
        end + rest[end..]
            .chars()
            .next()
            .filter(|c| last(*c))
            .map_or(0, char::len_utf8)
    };
    let length = match kind {
        Some('[') => behind(rest, |c| matches!(c, ' '..='?'), |c| matches!(c, '@'..='~')),
        Some(']' | 'P' | 'X' | '^' | '_') => string_length(rest),
        Some(' '..='/') => behind(rest, |c| matches!(c, ' '..='/'), |c| matches!(c, '0'..='~')),
        // A lone escape before unrelated text.
        Some(other) if !matches!(other, '0'..='~') => return &text[1..],
        _ => 0,
    };
    &rest[length..]
}

/// The length of a sequence's string, with its end. A string that doesn't end on its line is text: a stray
/// word is better than a lost one.
fn string_length(rest: &str) -> usize {
    let line = rest.split('\n').next().unwrap_or_default();
    let ends = ["\u{7}", "\u{1b}\\", "\u{9c}"];
    let ends = ends
        .iter()
        .filter_map(|end| line.find(end).map(|at| at + end.len()));
    ends.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_removed_whole() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("plain\ttext\n", "plain\ttext\n");
        check("\u{1b}[1;31mred\u{1b}[0m on", "red on");
        check("\u{1b}]0;a title\u{7}text", "text");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{1b}Pq#0\u{1b}\\after \u{1b}_apc\u{1b}\\all", "after all");
        check("\u{1b}(B\u{1b}7\u{1b}=a\u{1b}c", "a");
        check("\u{9b}31mred\u{9b}m \u{9d}0;t\u{9c}on\u{85}", "red on");
        check("10%\r20%\r\nend\r\n", "10%\n20%\nend\n");
        check("ab\u{8}\u{0}\u{7f}c", "abc");
        check("<task-\u{1b}[1mdone>", "<task-done>");
    }

    #[test]
    fn broken_sequences_remove_no_text() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check(
            "\u{1b}]0;title\n<task-done>t</task-done>",
            "0;title\n<task-done>t</task-done>",
        );
        check("\u{1b}", "");
        check("\u{1b}[", "");
        check("\u{1b}[31", "");
        check("\u{1b}é", "é");
        check("\u{1b}\u{1b}[1mx", "x");
        check("a\u{1b}\nb", "a\nb");
        check("\u{e2}\u{80}\u{9d} said", "\u{e2} said");
    }
}

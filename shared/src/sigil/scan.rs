//! Finds the tags of sigils in a text, one after the other, without judging them.

use memchr::memchr;

use super::attributes::{Attributes, Tail, read_tail, skip_space};
use super::name::SigilName;

/// A tag with a sigil's name. Offsets are bytes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub name: SigilName,
    pub shape: Shape,
    /// The offset of its `<`.
    pub start: usize,
    /// Just after its `>`; for a broken tag, just after its name.
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `<name …>`
    Open,
    /// `<name …/>`
    SelfClosing,
    /// `<name` without a valid end of a tag.
    Broken,
    /// `</name>`
    Close,
}

impl Tag {
    /// The attributes of an opening tag of `text`.
    pub(super) fn attributes(self, text: &str) -> Attributes<'_> {
        Attributes::read(text, self.start + "<".len() + self.name.into_str().len())
    }
}

/// An iterator over the tags of `text`.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Number of visited bytes; every visit counts.
    pub visited: u64,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            visited: 0,
        }
    }
}

impl Iterator for Scanner<'_> {
    type Item = Tag;

    fn next(&mut self) -> Option<Tag> {
        let bytes = self.text.as_bytes();
        loop {
            let Some(found) = next_name(bytes, self.at) else {
                self.visited += (bytes.len() - self.at) as u64;
                self.at = bytes.len();
                return None;
            };
            let (shape, looked_to) = if found.closing {
                let end = skip_space(bytes, found.name_end);
                let is_whole = bytes.get(end) == Some(&b'>');
                (is_whole.then_some((Shape::Close, end + 1)), end)
            } else {
                match read_tail(self.text, found.name_end, |_, _| ()) {
                    Tail::Whole {
                        end,
                        self_closing: false,
                    } => (Some((Shape::Open, end)), end),
                    Tail::Whole {
                        end,
                        self_closing: true,
                    } => (Some((Shape::SelfClosing, end)), end),
                    Tail::Broken { at } => (Some((Shape::Broken, found.name_end)), at),
                }
            };
            self.visited += (looked_to - self.at) as u64;
            let Some((shape, end)) = shape else {
                self.at = looked_to;
                continue;
            };
            self.at = end;
            return Some(Tag {
                name: found.name,
                shape,
                start: found.start,
                end,
            });
        }
    }
}

/// `<name` or `</name`, followed by a byte that may follow a name in a tag.
pub(super) struct TagStart {
    pub name: SigilName,
    /// The offset of the `<`.
    pub start: usize,
    pub closing: bool,
    pub name_end: usize,
}

/// The first [`TagStart`] at or after byte `at`.
pub(super) fn next_name(bytes: &[u8], mut at: usize) -> Option<TagStart> {
    loop {
        let start = next_angle(bytes, at)?;
        let closing = bytes.get(start + 1) == Some(&b'/');
        let name_start = start + 1 + usize::from(closing);
        if let Some(name) = SigilName::beginning(&bytes[name_start..]) {
            let name_end = name_start + name.into_str().len();
            if bytes
                .get(name_end)
                .is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
            {
                return Some(TagStart {
                    name,
                    start,
                    closing,
                    name_end,
                });
            }
        }
        at = start + 1;
    }
}

/// The first `<` at or after byte `at`. Looks at the next bytes one by one, since a text full of `<` would
/// pay for the start of a wide search at each.
fn next_angle(bytes: &[u8], at: usize) -> Option<usize> {
    const NEAR: usize = 16;
    let rest = &bytes[at..];
    match rest.iter().take(NEAR).position(|byte| *byte == b'<') {
        Some(near) => Some(at + near),
        None => Some(at + NEAR + memchr(b'<', rest.get(NEAR..)?)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+name` opens, `=name` closes itself, `-name` closes, `?name` is broken.
    fn check(text: &str, expected: &[&str]) {
        let seen: Vec<String> = Scanner::new(text)
            .map(|tag| match tag.shape {
                Shape::Open => format!("+{}", tag.name),
                Shape::SelfClosing => format!("={}", tag.name),
                Shape::Broken => format!("?{}", tag.name),
                Shape::Close => format!("-{}", tag.name),
            })
            .collect();
        assert_eq!(seen, expected, "{text:?}");
    }

    #[test]
    fn tags_are_found_among_other_text() {
        check("", &[]);
        check("a < b && <b>c</b> <task>", &[]);
        check("x<task-done>y</task-done >z", &["+task-done", "-task-done"]);
        check("<verify-pass/><verify-pass />", &["=verify-pass", "=verify-pass"]);
        check("<<<journal>>>", &["+journal"]);
        check("日本<journal>語</journal>", &["+journal", "-journal"]);
    }

    #[test]
    fn a_name_must_end_where_the_tags_name_ends() {
        check(
            "<journals> <memory_pool> <task-done-x> <Journal> < journal> </ journal>",
            &[],
        );
        check("<promise`> <learning,", &[]);
    }

    #[test]
    fn broken_tags_hide_no_later_tags() {
        check(
            "<knowledge title=\"<task-done>t</task-done>",
            &["?knowledge", "+task-done", "-task-done"],
        );
        check("<journal <journal>", &["?journal", "+journal"]);
        check("</journal <journal>", &["+journal"]);
        check("<journal", &["?journal"]);
    }

    #[test]
    fn tags_in_attribute_values_are_no_tags() {
        check("<knowledge title='<task-done>t</task-done>'>", &["+knowledge"]);
    }
}

//! Finds the tags of sigils in a text, one after the other, without judging them.

use memchr::memchr;

use super::attributes::{Attributes, Tail, read_tail, skip_space};
use super::name::SigilName;

/// A tag that bears a sigil's name. Offsets are bytes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// `<name …>`, or `<name …/>` where `self_closing`.
    Open {
        name: SigilName,
        start: usize,
        end: usize,
        attributes: Attributes<'a>,
        self_closing: bool,
    },
    /// `<name` with something behind it that ends no tag.
    Broken { name: SigilName, start: usize },
    /// `</name>`
    Close { name: SigilName, start: usize },
}

impl Tag<'_> {
    pub(super) fn name(&self) -> SigilName {
        match *self {
            Self::Open { name, .. } | Self::Broken { name, .. } | Self::Close { name, .. } => name,
        }
    }

    /// The offset of its `<`.
    pub(super) fn start(&self) -> usize {
        match *self {
            Self::Open { start, .. } | Self::Broken { start, .. } | Self::Close { start, .. } => start,
        }
    }
}

/// An iterator over the tags of `text`.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// How many bytes were looked at, those looked at twice counted twice.
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

impl<'a> Iterator for Scanner<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let Some(found) = next_name(bytes, self.at) else {
                self.visited += (bytes.len() - self.at) as u64;
                self.at = bytes.len();
                return None;
            };
            let Found {
                name,
                start,
                closing,
                name_end,
            } = found;
            self.visited += (name_end - self.at) as u64;
            self.at = name_end;
            if closing {
                let end = skip_space(bytes, name_end);
                self.visited += (end - name_end) as u64;
                self.at = end;
                if bytes.get(end) == Some(&b'>') {
                    return Some(Tag::Close { name, start });
                }
                continue;
            }
            return Some(match read_tail(self.text, name_end) {
                Tail::Whole {
                    attributes,
                    end,
                    self_closing,
                } => {
                    self.visited += (end - name_end) as u64;
                    self.at = end;
                    Tag::Open {
                        name,
                        start,
                        end,
                        attributes,
                        self_closing,
                    }
                }
                Tail::Broken { at } => {
                    self.visited += (at - name_end) as u64;
                    Tag::Broken { name, start }
                }
            });
        }
    }
}

/// `<name` or `</name`, the name being followed by what may follow a name in a tag.
pub(super) struct Found {
    pub name: SigilName,
    /// The offset of the `<`.
    pub start: usize,
    pub closing: bool,
    pub name_end: usize,
}

/// The first [`Found`] at or after byte `at`.
pub(super) fn next_name(bytes: &[u8], mut at: usize) -> Option<Found> {
    loop {
        let start = at + memchr(b'<', &bytes[at..])?;
        let closing = bytes.get(start + 1) == Some(&b'/');
        let name_start = start + 1 + usize::from(closing);
        if let Some(name) = SigilName::beginning(&bytes[name_start..]) {
            let name_end = name_start + name.as_str().len();
            if bytes
                .get(name_end)
                .is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
            {
                return Some(Found {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `+name` opens, `=name` closes itself, `-name` closes, `?name` is broken.
    fn check(text: &str, expected: &[&str]) {
        let seen: Vec<String> = Scanner::new(text)
            .map(|tag| match tag {
                Tag::Open {
                    name,
                    self_closing: false,
                    ..
                } => format!("+{name}"),
                Tag::Open {
                    name,
                    self_closing: true,
                    ..
                } => format!("={name}"),
                Tag::Broken { name, .. } => format!("?{name}"),
                Tag::Close { name, .. } => format!("-{name}"),
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
    fn broken_tags_hide_nothing_behind_them() {
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

//! The part of an opening tag after its name: attributes, and the `>` or `/>` that ends it.

use memchr::memchr;

/// The known attributes of sigils, as written. Others are ignored. A repeated one keeps its first value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes<'a> {
    pub title: Option<&'a str>,
    pub tags: Option<&'a str>,
    pub category: Option<&'a str>,
    pub kind: Option<&'a str>,
    pub rationale: Option<&'a str>,
    pub merges: Option<&'a str>,
    pub id: Option<&'a str>,
    pub helped: Option<&'a str>,
    pub misled: Option<&'a str>,
    pub choices: Option<&'a str>,
}

/// The end of an opening tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Just after `>` or `/>`.
    Whole { end: usize, self_closing: bool },
    /// At the first byte that no tag may have there, or at the end of the text.
    Broken { at: usize },
}

/// Reads `( space+ name space* = space* quoted )* space* /? >` from the end of the name at byte `at`, and
/// passes every attribute's name and value to `attribute`.
///
/// A scan that begins inside another scan's quoted value may visit the same bytes, yet no more than three
/// scans visit a byte. A scan is outside of values, in `"…"` or in `'…'`; a quote character maps these states
/// one to one. So two scans that are alive at one place are in different states, and one that is outside ends
/// at the next `<`.
pub(super) fn read_tail<'a>(
    text: &'a str,
    mut at: usize,
    mut attribute: impl FnMut(&'a str, &'a str),
) -> Tail {
    let bytes = text.as_bytes();
    loop {
        let before_space = at;
        at = skip_space(bytes, at);
        match bytes.get(at) {
            Some(b'>') => {
                return Tail::Whole {
                    end: at + 1,
                    self_closing: false,
                };
            }
            Some(b'/') if bytes.get(at + 1) == Some(&b'>') => {
                return Tail::Whole {
                    end: at + 2,
                    self_closing: true,
                };
            }
            Some(byte) if byte.is_ascii_alphabetic() && at > before_space => {}
            _ => return Tail::Broken { at },
        }
        let name_start = at;
        while bytes
            .get(at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            at += 1;
        }
        let name = &text[name_start..at];
        at = skip_space(bytes, at);
        if bytes.get(at) != Some(&b'=') {
            return Tail::Broken { at };
        }
        at = skip_space(bytes, at + 1);
        let Some(&quote @ (b'"' | b'\'')) = bytes.get(at) else {
            return Tail::Broken { at };
        };
        let value_start = at + 1;
        let Some(length) = memchr(quote, &bytes[value_start..]) else {
            return Tail::Broken { at: bytes.len() };
        };
        attribute(name, &text[value_start..value_start + length]);
        at = value_start + length + 1;
    }
}

impl<'a> Attributes<'a> {
    /// The attributes of the tag whose name ends at byte `name_end`.
    pub(super) fn read(text: &'a str, name_end: usize) -> Self {
        let mut attributes = Self::default();
        read_tail(text, name_end, |name, value| attributes.keep_first(name, value));
        attributes
    }

    fn keep_first(&mut self, name: &str, value: &'a str) {
        let slot = match name {
            "title" => &mut self.title,
            "tags" => &mut self.tags,
            "category" => &mut self.category,
            "kind" => &mut self.kind,
            "rationale" => &mut self.rationale,
            "merges" => &mut self.merges,
            "helped" => &mut self.helped,
            "misled" => &mut self.misled,
            "id" => &mut self.id,
            "choices" => &mut self.choices,
            _ => return,
        };
        slot.get_or_insert(value);
    }
}

/// The first byte from `at` on that is not ASCII white space.
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<(Attributes<'_>, &str, bool)> {
        match read_tail(text, 0, |_, _| ()) {
            Tail::Whole { end, self_closing } => {
                Some((Attributes::read(text, 0), &text[end..], self_closing))
            }
            Tail::Broken { .. } => None,
        }
    }

    #[test]
    fn tags_end_with_or_without_a_slash_and_space() {
        let none = Attributes::default();
        assert_eq!(whole(">body"), Some((none, "body", false)));
        assert_eq!(whole("/>rest"), Some((none, "rest", true)));
        assert_eq!(whole(" \n\t/> rest"), Some((none, " rest", true)));
    }

    #[test]
    fn values_hold_anything_but_their_quote() {
        let text = " tags = 'a \"b\"'\n\ttitle=\"it's <b>\n/> ü\" other-1='' >";
        let expected = Attributes {
            tags: Some("a \"b\""),
            title: Some("it's <b>\n/> ü"),
            ..Attributes::default()
        };
        assert_eq!(whole(text), Some((expected, "", false)));
    }

    #[test]
    fn the_first_value_of_a_name_stays() {
        let expected = Attributes {
            kind: Some("a"),
            ..Attributes::default()
        };
        assert_eq!(whole(" kind='a' kind='b'>"), Some((expected, "", false)));
    }

    #[test]
    fn a_broken_tag_ends_at_its_first_wrong_byte() {
        for (text, at) in [
            ("", 0),
            ("x>", 0),
            (" …>", 1),
            (" title>", 6),
            (" title=a>", 7),
            (" title=\"a>", 10),
            (" title='a'tags='b'>", 10),
            (" / >", 1),
            (" title = ", 9),
        ] {
            assert_eq!(read_tail(text, 0, |_, _| ()), Tail::Broken { at }, "{text:?}");
        }
    }
}

//! Decides which sigils that end a session are meant (SPEC 4.1). Texts about Ralph name them too: documents,
//! plans, an agent that thinks aloud. So an ending counts only as a statement of its agent: not in a fence, a
//! quote, a comment or another sigil's body, and not in a sentence that denies it or makes it conditional. An
//! ending without the assigned id counts only as the last statement.

use std::ops::Range;

use memchr::memmem;

use super::name::SigilName;

/// Words before an ending, in its sentence, with which it is no statement.
const UNMEANT: &[&str] = &[
    "not", "never", "cannot", "until", "unless", "if", "when", "instead", "would", "should", "will", "must",
    "example", "e.g", "say", "says", "write", "writes", "emit", "emits",
];

/// Number of bytes before an ending that are searched for the beginning of its sentence.
const SENTENCE_BYTES: usize = 400;

impl SigilName {
    /// Whether it decides how its session ended.
    pub(super) const fn is_ending(self) -> bool {
        matches!(
            self,
            Self::TaskDone
                | Self::TaskFailed
                | Self::Promise
                | Self::VerifyPass
                | Self::VerifyFail
                | Self::ReviewPass
                | Self::ReviewChanges
        )
    }
}

/// Code fences and HTML comments of a text, in order and not nested: sigils in them are only mentioned.
#[derive(Debug)]
pub(super) struct Mentions(Vec<Range<usize>>);

impl Mentions {
    pub(super) fn of(text: &str) -> Self {
        Self(outermost([fences(text), comments(text)].concat()).0)
    }

    pub(super) fn hold(&self, start: usize) -> bool {
        let earlier = self.0.partition_point(|mention| mention.start <= start);
        earlier > 0 && start < self.0[earlier - 1].end
    }
}

/// Whether a whole sigil is inline code, or is between lines that make fences. If a fence is inside another
/// of its kind, these lines do the opposite of what they seem to.
pub(super) fn is_code(text: &str, sigil: Range<usize>) -> bool {
    let is_fence = |line: Option<&str>| line.is_some_and(|line| line.trim_start().starts_with("```"));
    let (before, after) = (&text[..sigil.start], &text[sigil.end..]);
    let inline = before.ends_with('`') && after.starts_with('`');
    let framed = before.trim_end_matches([' ', '\t']).ends_with('\n')
        && is_fence(before.trim_end().rsplit('\n').next())
        && after.trim_start().starts_with("```");
    inline || framed
}

/// The places in a text that may hold an ending.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    text: &'a str,
    mentions: &'a Mentions,
    /// Whole sigils, in order and not nested.
    outer: Vec<Range<usize>>,
    /// The beginnings of nested sigils, in order.
    nested: Vec<usize>,
    /// The end of the text outside of sigils.
    said_to: usize,
    /// The last queried ending, and the beginning of its line.
    last: (usize, usize),
}

impl<'a> Candidates<'a> {
    /// Prepares a text with its whole sigils, in any order.
    pub(super) fn new(text: &'a str, mentions: &'a Mentions, sigils: Vec<Range<usize>>) -> Self {
        let (outer, nested) = outermost(sigils);
        let mut end = text.len();
        let mut said_to = 0;
        for from in outer.iter().rev().map(Some).chain([None]) {
            let start = from.map_or(0, |sigil| sigil.end);
            let said = text[start..end].trim_end();
            if !said.is_empty() {
                said_to = start + said.len();
                break;
            }
            end = from.map_or(0, |sigil| sigil.start);
        }
        Self {
            text,
            mentions,
            outer,
            nested,
            said_to,
            last: (0, 0),
        }
    }

    /// Whether the ending that begins here is a statement of its agent. Each call takes a later ending than
    /// the call before.
    pub(super) fn is_statement(&mut self, start: usize) -> bool {
        let line = self.line(start);
        if self.mentions.hold(start) || self.nested.binary_search(&start).is_ok() {
            return false;
        }
        let sigils = self.outer.partition_point(|sigil| sigil.end <= start);
        let behind = if sigils > 0 { self.outer[sigils - 1].end } else { 0 };
        let before = self.last_bytes(line.max(behind), start);
        let is_whole = behind <= line;
        if is_quoted(before, is_whole) {
            return false;
        }
        before.trim().is_empty() || !is_unmeant(self.last_bytes(behind, start))
    }

    /// Whether only sigils are beside an ending on its line, or follow it.
    pub(super) fn is_last(&mut self, start: usize) -> bool {
        self.said_to <= self.line(start)
    }

    fn line(&mut self, start: usize) -> usize {
        let (from, line) = self.last;
        let found = memchr::memrchr(b'\n', &self.text.as_bytes()[from..start]);
        self.last = (start, found.map_or(line, |end| from + end + 1));
        self.last.1
    }

    /// The text between these offsets, at most its last [`SENTENCE_BYTES`].
    fn last_bytes(&self, from: usize, to: usize) -> &'a str {
        let from = from.max(to.saturating_sub(SENTENCE_BYTES));
        &self.text[self.text.ceil_char_boundary(from)..to]
    }
}

/// The outermost ranges, joined where they overlap, and the beginnings of the others; both in order.
fn outermost(mut ranges: Vec<Range<usize>>) -> (Vec<Range<usize>>, Vec<usize>) {
    ranges.sort_by_key(|range| (range.start, usize::MAX - range.end));
    let (mut outer, mut inner): (Vec<Range<usize>>, _) = (Vec::new(), Vec::new());
    for range in ranges {
        match outer.last_mut() {
            Some(last) if range.start < last.end => {
                inner.push(range.start);
                last.end = last.end.max(range.end);
            }
            _ => outer.push(range),
        }
    }
    (outer, inner)
}

/// Whether the text after this part of a line is quoted, or code by the indentation of a whole line.
fn is_quoted(before: &str, is_whole: bool) -> bool {
    let indented = before.trim_start_matches(['\t', ' ']);
    let indentation = before.len() - indented.len();
    let is_code = indentation >= 4 || before[..indentation].contains('\t');
    let is_open = |mark: char| before.matches(mark).count() % 2 == 1;
    let opened = before.matches(['“', '„', '«']).count();
    let closed = before.matches(['”', '»']).count();
    is_whole && is_code
        || indented.starts_with('>')
        || is_open('`')
        || is_open('"')
        || opened > closed
        || before.ends_with(['\'', '‘', '‚', '‹'])
}

/// Whether the last sentence of this text doesn't state what follows.
fn is_unmeant(before: &str) -> bool {
    let paragraph = before.rsplit("\n\n").next().unwrap_or_default();
    let mut ends = paragraph.match_indices(['.', '!', '?', ';']).filter(|(at, end)| {
        let after = paragraph[at + end.len()..].chars().next();
        after.is_none_or(char::is_whitespace)
    });
    let sentence = ends.next_back().map_or(paragraph, |(at, _)| &paragraph[at..]);
    let words = sentence.split(|sign: char| !sign.is_alphanumeric() && !matches!(sign, '\'' | '’' | '.'));
    let mut words = words.map(|word| word.trim_matches('.').to_lowercase());
    words.any(|word| {
        let word = word.replace('’', "'");
        UNMEANT.contains(&word.as_str()) || word.ends_with("n't") || word.ends_with("'ll")
    })
}

/// Code between fences of CommonMark: three or more backticks or tildes, closed by as many of them or by the
/// end.
fn fences(text: &str) -> Vec<Range<usize>> {
    let mut fences = Vec::new();
    let mut open: Option<(usize, char, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let marks = line.trim_start_matches([' ', '>']);
        let Some(mark) = marks.chars().next().filter(|mark| matches!(mark, '`' | '~')) else {
            continue;
        };
        let rest = marks.trim_start_matches(mark);
        let length = marks.len() - rest.len();
        match open {
            Some((from, with, least)) if mark == with && length >= least && rest.trim().is_empty() => {
                fences.push(from..at);
                open = None;
            }
            None if length >= 3 && !(mark == '`' && rest.contains('`')) => open = Some((start, mark, length)),
            _ => {}
        }
    }
    fences.extend(open.map(|(from, ..)| from..text.len()));
    fences
}

fn comments(text: &str) -> Vec<Range<usize>> {
    let mut comments = Vec::new();
    let mut at = 0;
    while let Some(found) = memmem::find(&text.as_bytes()[at..], b"<!--") {
        let start = at + found;
        // A comment that is never closed is ordinary text.
        let Some(length) = memmem::find(&text.as_bytes()[start..], b"-->") else {
            break;
        };
        at = start + length + "-->".len();
        comments.push(start..at);
    }
    comments
}

//! Parses a script from a description. Pure; the table [`FORMS`] defines the language.

use std::iter::Enumerate;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::{FromStr, Lines};
use std::time::Duration;

use super::script::{Action, Condition, Expect, Script, Step};

/// An invalid directive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the description, `{text}`: {reason}")]
pub(super) struct ParseError {
    /// Line number in the description, from 1.
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) reason: String,
}

type Read<T> = Result<T, String>;
type Reader<T> = fn(&mut Args<'_, '_>) -> Read<T>;

/// Name and parser of every action.
#[rustfmt::skip]
const FORMS: &[(&str, Reader<Action>)] = &[
    ("write",            |a| Ok(Action::Write { path: a.path()?, text: a.file_text()? })),
    ("append",           |a| Ok(Action::Append { path: a.path()?, text: a.file_text()? })),
    ("insert",           |a| Ok(Action::Insert { path: a.path()?, after: a.until_colon("LINE")?, text: a.file_text()? })),
    ("read",             |a| Ok(Action::Read { path: a.path()? })),
    ("run",              |a| Ok(Action::Run { command: a.verbatim("CMD")?, expect: Expect::Anything })),
    ("expect-pass",      |a| Ok(Action::Run { command: a.verbatim("CMD")?, expect: Expect::Pass })),
    ("expect-fail",      |a| Ok(Action::Run { command: a.verbatim("CMD")?, expect: Expect::Fail })),
    ("fs-write",         |a| Ok(Action::FsWrite { path: a.path()?, text: a.file_text()? })),
    ("fs-read",          |a| Ok(Action::FsRead { path: a.path()? })),
    ("term",             |a| Ok(Action::Term { command: a.verbatim("CMD")? })),
    ("ask",              |a| Ok(Action::Ask { title: a.verbatim("TITLE")? })),
    ("mcp",              |a| Ok(Action::Mcp { tool: a.word("TOOL")?, arguments: a.json("JSON")? })),
    ("mcp-version",      |a| Ok(Action::McpVersion { version: a.word("VERSION")? })),
    ("mcp-flood",        |a| Ok(Action::McpFlood { size_bytes: a.size_bytes()? })),
    ("effect",           |a| Ok(Action::Effect { name: a.word("NAME")? })),

    ("say",              |a| Ok(Action::Say { text: a.text()? })),
    ("split",            |a| Ok(Action::Split { text: a.text()? })),
    ("think",            |a| Ok(Action::Think { text: a.text()? })),
    ("plan",             |a| Ok(Action::Plan { entries: a.verbatim("A|B|C")?.split('|').map(str::to_owned).collect() })),
    ("usage",            |a| Ok(Action::Usage { input_tokens: a.parsed("IN")?, output_tokens: a.parsed("OUT")?, cost_usd: a.parsed("COST")?, times: 1 })),
    ("spend",            |a| Ok(Action::Usage { times: a.parsed("TIMES")?, input_tokens: a.parsed("IN")?, output_tokens: a.parsed("OUT")?, cost_usd: a.parsed("COST")? })),
    ("model",            |_| Ok(Action::Model)),
    ("meta",             |_| Ok(Action::Meta)),
    ("echo-prompt",      |_| Ok(Action::EchoPrompt)),
    ("flood",            |a| Ok(Action::Flood { character: 'x', size_bytes: a.size_bytes()? })),
    ("flood-controls",   |a| Ok(Action::Flood { character: '\x01', size_bytes: a.size_bytes()? })),
    ("stream",           |a| Ok(Action::Stream { count: a.parsed("COUNT")? })),
    ("long-line",        |a| Ok(Action::LongLine { size_bytes: a.size_bytes()? })),
    ("tool-update-only", |_| Ok(Action::ToolUpdateOnly)),
    ("stderr",           |a| Ok(Action::Stderr { text: a.text()? })),

    ("wait",             |a| Ok(Action::Wait { time: Duration::from_millis(a.parsed("MS")?) })),
    ("wait-for",         |a| Ok(Action::WaitFor { path: a.path()? })),
    ("done",             |a| Ok(Action::Done { id: a.optional_word() })),
    ("fail",             |a| Ok(Action::Fail { why: a.text()? })),
    ("stop",             |a| Ok(Action::Stop { reason: a.word("REASON")? })),
    ("error",            |a| Ok(Action::Error { code: a.parsed("CODE")?, text: a.text()? })),
    ("silent",           |_| Ok(Action::Silent)),

    ("crash",            |_| Ok(Action::Exit { status: 101 })),
    ("exit",             |a| Ok(Action::Exit { status: a.parsed("N")? })),
    ("kill",             |_| Ok(Action::Kill)),
    ("hang",             |_| Ok(Action::Hang)),
    ("ignore-cancel",    |_| Ok(Action::IgnoreCancel)),
    ("ignore-term",      |_| Ok(Action::IgnoreTerm)),
    ("ignore-eof",       |_| Ok(Action::IgnoreEof)),
    ("orphan",           |a| Ok(Action::Orphan { life: Duration::from_secs(a.parsed("SECONDS")?) })),
    ("close-stdout",     |_| Ok(Action::CloseStdout)),
    ("close-stdin",      |_| Ok(Action::CloseStdin)),
    ("junk",             |a| Ok(Action::Junk { text: a.text()? })),
    ("raw",              |a| Ok(Action::Raw { text: a.text()? })),
    ("late",             |a| Ok(Action::Late { time: Duration::from_millis(a.parsed("MS")?), text: a.text()? })),
    ("bad-json",         |_| Ok(Action::BadJson)),
    ("bad-utf8",         |_| Ok(Action::BadUtf8)),
    ("unknown-update",   |_| Ok(Action::UnknownUpdate)),
    ("unknown-request",  |_| Ok(Action::UnknownRequest)),
    ("stray-response",   |_| Ok(Action::StrayResponse)),
];

/// Name and parser of every condition.
#[rustfmt::skip]
const CONDITIONS: &[(&str, Reader<Condition>)] = &[
    ("on-attempt",        |a| Ok(Condition::Attempt(attempts(&a.word("N")?)?))),
    ("on-kind",           |a| Ok(Condition::Kind(a.parsed("KIND")?))),
    ("if-prompt-has",     |a| Ok(Condition::PromptHas(a.until_colon("TEXT")?))),
    ("unless-prompt-has", |a| Ok(Condition::PromptLacks(a.until_colon("TEXT")?))),
];

/// Parses every directive of a description.
///
/// # Errors
/// All invalid directives, in line order.
pub(super) fn parse(description: &str) -> Result<Script, Vec<ParseError>> {
    let mut lines = description.lines().enumerate();
    let (mut steps, mut errors) = (Vec::new(), Vec::new());
    while let Some((index, line)) = lines.next() {
        let Some(directive) = line.strip_prefix('@') else {
            continue;
        };
        match read_step(&mut Args {
            rest: directive,
            lines: &mut lines,
        }) {
            Ok(step) => steps.push(step),
            Err(reason) => errors.push(ParseError {
                line: index + 1,
                text: line.to_owned(),
                reason,
            }),
        }
    }
    if errors.is_empty() {
        Ok(Script { steps })
    } else {
        Err(errors)
    }
}

/// Checks that a description is a valid script.
///
/// # Errors
/// All invalid directives, in words.
pub fn check_script(description: &str) -> Result<(), Vec<String>> {
    parse(description)
        .map(drop)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn read_step(args: &mut Args<'_, '_>) -> Read<Step> {
    let mut conditions = Vec::new();
    loop {
        let name = args.word("DIRECTIVE")?;
        let name = name.strip_prefix('@').unwrap_or(&name);
        if let Some((_, read)) = CONDITIONS.iter().find(|(known, _)| *known == name) {
            conditions.push(read(args)?);
            continue;
        }
        let Some((_, read)) = FORMS.iter().find(|(known, _)| *known == name) else {
            return Err(format!("there is no directive `{name}`; `--help` lists them"));
        };
        let action = read(args)?;
        let extra = args.rest.trim();
        if !extra.is_empty() {
            return Err(format!("`{extra}` is more than `@{name}` takes"));
        }
        return Ok(Step { conditions, action });
    }
}

fn attempts(word: &str) -> Read<RangeInclusive<u32>> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("`{word}` is not an attempt: write 2, 2+ or 2-4"))
    };
    if let Some(first) = word.strip_suffix('+') {
        Ok(number(first)?..=u32::MAX)
    } else if let Some((first, last)) = word.split_once('-') {
        Ok(number(first)?..=number(last)?)
    } else {
        Ok(number(word)?..=number(word)?)
    }
}

/// The rest of a directive's line, and the lines below it.
struct Args<'a, 'd> {
    rest: &'d str,
    lines: &'a mut Enumerate<Lines<'d>>,
}

impl<'d> Args<'_, 'd> {
    fn optional_word(&mut self) -> Option<String> {
        let rest = self.rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn word(&mut self, what: &str) -> Read<String> {
        self.optional_word().ok_or_else(|| format!("{what} is missing"))
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self, what: &str) -> Read<T> {
        self.word(what)?
            .parse()
            .map_err(|error| format!("{what}: {error}"))
    }

    fn path(&mut self) -> Read<PathBuf> {
        self.word("PATH").map(PathBuf::from)
    }

    fn size_bytes(&mut self) -> Read<usize> {
        let word = self.word("BYTES")?;
        let (digits, unit) = match word.strip_suffix(['K', 'M']) {
            Some(digits) if word.ends_with('K') => (digits, 1 << 10),
            Some(digits) => (digits, 1 << 20),
            None => (word.as_str(), 1),
        };
        let count: usize = digits
            .parse()
            .map_err(|error| format!("BYTES `{word}`: {error}"))?;
        count
            .checked_mul(unit)
            .ok_or_else(|| format!("BYTES `{word}` is too large"))
    }

    /// The rest of the line, trimmed.
    fn verbatim(&mut self, what: &str) -> Read<String> {
        let rest = std::mem::take(&mut self.rest).trim();
        if rest.is_empty() {
            Err(format!("{what} is missing"))
        } else {
            Ok(rest.to_owned())
        }
    }

    fn json(&mut self, what: &str) -> Read<serde_json::Value> {
        let text = self.verbatim(what)?;
        serde_json::from_str(&text).map_err(|error| format!("{what}: {error}"))
    }

    /// The text up to ` : `, which is dropped, or up to a ` :` at the end of the line.
    fn until_colon(&mut self, what: &str) -> Read<String> {
        let (text, rest) = (self.rest.split_once(" : "))
            .or_else(|| self.rest.strip_suffix(" :").map(|text| (text, "")))
            .ok_or_else(|| format!("there is no ` : ` after {what}"))?;
        self.rest = rest;
        let text = text.trim();
        if text.is_empty() {
            Err(format!("{what} is missing"))
        } else {
            Ok(text.to_owned())
        }
    }

    /// `TEXT` for a message: may be empty.
    fn text(&mut self) -> Read<String> {
        let rest = std::mem::take(&mut self.rest).trim_start();
        match rest.strip_prefix("<<").map(str::trim_end) {
            Some(word) if is_marker(word) => self.lines_until(word),
            _ => Ok(unescape(rest)),
        }
    }

    /// `TEXT` for a file: whole lines.
    fn file_text(&mut self) -> Read<String> {
        let mut text = self.text()?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    fn lines_until(&mut self, end: &str) -> Read<String> {
        let mut text = String::new();
        for (_, line) in &mut *self.lines {
            if line.trim_end() == end {
                return Ok(text);
            }
            text.push_str(line);
            text.push('\n');
        }
        Err(format!("no line `{end}` ends the text"))
    }
}

/// Whether the word may mark the end of a multi-line text: capitals, so that it is no accident.
fn is_marker(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|character| character.is_ascii_uppercase() || character == '_')
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut escaped = rest[at + 1..].chars();
        match escaped.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('e') => out.push('\u{1b}'),
            Some('m') => out.push('\u{feff}'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
        rest = escaped.as_str();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;

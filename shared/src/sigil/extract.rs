//! The failure report of an attempt whose agent left none (SPEC 4.3).

use serde::{Deserialize, Serialize};

use super::cut::{cut_at_line, cut_at_word, last_lines};
use super::scan::Scanner;
use super::value::one_line;

/// The short error has at most this many characters.
pub const ERROR_CHARS: usize = 500;
/// A line of the agent's text that looks like an error gives at most this many characters of it.
pub const TEXT_LINE_CHARS: usize = 200;
/// The context keeps at most this many characters; the text that it comes from is kept whole elsewhere.
pub const CONTEXT_CHARS: usize = 10_000;
/// Maximum number of named files.
pub const MAX_FILES: usize = 20;

/// The error of a failed attempt without any information.
pub const NOTHING_CAPTURED: &str = "no specific error message captured";

/// Facts on a failed attempt. An empty text is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureFacts<'a> {
    /// `FAILURE_REASON:`, from [`super::Sigils::failure_reason`].
    pub failure_reason: &'a str,
    /// The protocol error, or the stop reason in words; empty after `end_turn`.
    pub session_end: &'a str,
    /// The output of the last tool call that failed.
    pub tool_output: &'a str,
    /// The agent's last lines on standard error.
    pub stderr_tail: &'a str,
    /// The agent's message text.
    pub text: &'a str,
    /// The last plan entries and tool-call titles, newest last.
    pub attempted: &'a [String],
    /// Changed paths, according to git.
    pub changed_files: &'a [String],
}

/// A failure, as far as the facts show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractedFailure {
    /// Where the error was found.
    pub source: FailureSource,
    /// At most [`ERROR_CHARS`] characters; never empty.
    pub error: String,
    /// The text around the error in its source, at most [`CONTEXT_CHARS`] characters.
    pub context: String,
    /// The attempted work, at most [`ERROR_CHARS`] characters; empty if unknown.
    pub attempted: String,
    /// Changed files, then files that the text names; at most [`MAX_FILES`], each once.
    pub files: Vec<String>,
}

/// The source of an extracted error, in the order of preference (SPEC 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureSource {
    /// A `FAILURE_REASON:` line.
    ReasonLine,
    /// A protocol error or the stop reason.
    SessionEnd,
    /// The last failed tool call's output.
    ToolOutput,
    Stderr,
    /// The first line of the text that looks like an error.
    Text,
    Nothing,
}

/// Makes a failure report from the facts; only for attempts that failed.
#[must_use]
pub fn extract_failure(facts: &FailureFacts<'_>) -> ExtractedFailure {
    let reason = facts.failure_reason.trim();
    let session_end = facts.session_end.trim();
    let tool_output = facts.tool_output.trim();
    let stderr = facts.stderr_tail.trim();
    let (source, error, context) = if !reason.is_empty() {
        (
            FailureSource::ReasonLine,
            cut_at_word(reason, ERROR_CHARS),
            cut_at_line(reason, CONTEXT_CHARS),
        )
    } else if !session_end.is_empty() {
        (
            FailureSource::SessionEnd,
            cut_at_line(session_end, ERROR_CHARS),
            cut_at_line(session_end, CONTEXT_CHARS),
        )
    } else if !tool_output.is_empty() {
        (
            FailureSource::ToolOutput,
            telling_part(tool_output),
            last_lines(tool_output, CONTEXT_CHARS),
        )
    } else if !stderr.is_empty() {
        (
            FailureSource::Stderr,
            last_lines(stderr, ERROR_CHARS),
            last_lines(stderr, CONTEXT_CHARS),
        )
    } else if let Some((line, paragraph)) = error_in_text(facts.text) {
        (
            FailureSource::Text,
            cut_at_word(line, TEXT_LINE_CHARS),
            cut_at_line(paragraph, CONTEXT_CHARS),
        )
    } else {
        (FailureSource::Nothing, NOTHING_CAPTURED, "")
    };
    let mut context = context.trim().to_owned();
    if source == FailureSource::SessionEnd && !stderr.is_empty() {
        // The end of a session says little about its cause; its agent's last errors may say more.
        let room = CONTEXT_CHARS.saturating_sub(context.chars().count() + 1);
        if room > 1 {
            context.push('\n');
            context.push_str(last_lines(stderr, room).trim());
        }
    }
    ExtractedFailure {
        source,
        error: error.trim().to_owned(),
        context: context.trim_end().to_owned(),
        attempted: attempted(facts.attempted),
        files: files(facts.changed_files, facts.text),
    }
}

/// The part of a command's output that fits: from its first line that looks like an error, else its end.
fn telling_part(output: &str) -> &str {
    if output.chars().nth(ERROR_CHARS).is_none() {
        return output;
    }
    let error = lines_with_offsets(output).find(|(_, line)| looks_like_error(line));
    error.map_or_else(
        || last_lines(output, ERROR_CHARS),
        |(start, _)| cut_at_line(output[start..].trim(), ERROR_CHARS),
    )
}

/// The first line that looks like an error, without the sigils after it, and the text from it up to an empty
/// line.
fn error_in_text(text: &str) -> Option<(&str, &str)> {
    lines_with_offsets(text).find_map(|(start, line)| {
        let line = Some(line).filter(|line| looks_like_error(line))?;
        let own_words = Scanner::new(line)
            .next()
            .map_or(line, |tag| &line[..tag.start])
            .trim();
        let own_words = Some(own_words).filter(|words| looks_like_error(words))?;
        let rest = &text[start..];
        let paragraph = lines_with_offsets(rest).find(|(_, line)| line.trim().is_empty());
        Some((own_words, paragraph.map_or(rest, |(end, _)| &rest[..end])))
    })
}

/// Whether a line has one of the words that mark an error, in any case.
fn looks_like_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["error", "failed", "exception", "cannot", "not found"]
        .iter()
        .any(|word| line.contains(word))
}

/// Every line without its end, with the offset of its start in bytes.
fn lines_with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let here = start;
        start += line.len();
        (here, line.trim_end_matches(['\r', '\n']))
    })
}

/// The newest entries that fit, oldest first, each on one line.
fn attempted(entries: &[String]) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut left = ERROR_CHARS;
    for entry in entries
        .iter()
        .rev()
        .map(|entry| one_line(entry))
        .filter(|entry| !entry.is_empty())
    {
        let needed = entry.chars().count() + SEPARATOR.len();
        if needed > left && !kept.is_empty() {
            break;
        }
        kept.push(cut_at_word(&entry, ERROR_CHARS).to_owned());
        left = left.saturating_sub(needed);
    }
    kept.reverse();
    kept.join(SEPARATOR)
}

const SEPARATOR: &str = "; ";

/// Changed files, then files that the text names.
fn files(changed: &[String], text: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for path in changed
        .iter()
        .map(String::as_str)
        .chain(text.split_whitespace().filter_map(path_in))
    {
        if files.len() == MAX_FILES {
            break;
        }
        if !path.is_empty() && !files.iter().any(|known| known == path) {
            files.push(path.to_owned());
        }
    }
    files
}

/// The path in a word, without the punctuation and the line number around it: letters, digits and `._-/`,
/// with an extension that begins with a letter, and no address.
fn path_in(word: &str) -> Option<&str> {
    if !word.contains('.') || word.contains("://") {
        return None;
    }
    let is_path_char = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let word = word.trim_start_matches(|c| !is_path_char(c));
    let path = word
        .split(|c| !is_path_char(c))
        .next()?
        .trim_end_matches(['.', '/', '-']);
    let path = path.strip_prefix("./").unwrap_or(path);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, extension) = name.rsplit_once('.')?;
    let is_extension = extension.len() <= 10
        && extension.starts_with(|c: char| c.is_ascii_alphabetic())
        && extension.chars().all(|c| c.is_ascii_alphanumeric());
    // "e.g", "i.e" and "std.io" are words; a file without a folder has a stem of two letters and a known
    // look.
    let is_file = !folder.is_empty() || (stem.len() > 1 && extension.len() <= 4 && !stem.contains('.'));
    (is_extension && is_file && !stem.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> FailureFacts<'static> {
        FailureFacts {
            failure_reason: "no disk",
            session_end: "max_tokens",
            tool_output: "exit 1",
            stderr_tail: "panic",
            text: "It cannot work.",
            ..FailureFacts::default()
        }
    }

    #[test]
    fn sources_are_used_in_order() {
        let mut facts = facts();
        let mut check = |emptied: fn(&mut FailureFacts<'static>), source, error| {
            emptied(&mut facts);
            let failure = extract_failure(&facts);
            assert_eq!((failure.source, failure.error.as_str()), (source, error));
        };
        check(|_| (), FailureSource::ReasonLine, "no disk");
        check(
            |facts| facts.failure_reason = " ",
            FailureSource::SessionEnd,
            "max_tokens",
        );
        check(
            |facts| facts.session_end = "",
            FailureSource::ToolOutput,
            "exit 1",
        );
        check(|facts| facts.tool_output = "\n", FailureSource::Stderr, "panic");
        check(
            |facts| facts.stderr_tail = "",
            FailureSource::Text,
            "It cannot work.",
        );
        check(
            |facts| facts.text = "All is well.",
            FailureSource::Nothing,
            NOTHING_CAPTURED,
        );
    }

    #[test]
    fn the_context_has_the_session_end_and_the_agents_last_errors() {
        let mut facts = FailureFacts {
            session_end: "the agent exited with code 2",
            stderr_tail: "starting\nFATAL: config key foo is missing\n",
            ..FailureFacts::default()
        };
        let failure = extract_failure(&facts);
        assert_eq!(failure.error, "the agent exited with code 2");
        let context = "the agent exited with code 2\nstarting\nFATAL: config key foo is missing";
        assert_eq!(failure.context, context);
        let long = "noise\n".repeat(CONTEXT_CHARS) + "the end";
        facts.stderr_tail = &long;
        let failure = extract_failure(&facts);
        assert!(
            failure.context.chars().count() <= CONTEXT_CHARS,
            "{}",
            failure.context
        );
        assert!(failure.context.ends_with("noise\nthe end"), "{}", failure.context);
    }

    #[test]
    fn an_error_line_of_the_text_excludes_sigils() {
        for (text, expected) in [
            (
                "fine\r\nTypeError: x\r\nat y\r\n\r\nmore",
                Some(("TypeError: x", "TypeError: x\r\nat y\r\n")),
            ),
            ("<task-failed>t-1</task-failed>", None),
            (
                "File NOT FOUND <task-failed>t-1</task-failed>",
                Some(("File NOT FOUND", "File NOT FOUND <task-failed>t-1</task-failed>")),
            ),
            ("", None),
        ] {
            assert_eq!(error_in_text(text), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_are_cut_between_words_or_lines() {
        let words = "errör ".repeat(200);
        let failure = extract_failure(&FailureFacts {
            text: &format!("failed {words}"),
            ..FailureFacts::default()
        });
        assert_eq!(failure.error.chars().count(), 198);
        assert!(failure.error.ends_with("errör"));
        assert_eq!(failure.context, format!("failed {}", words.trim_end()));

        let output = format!(
            "{}error: the cause\n{}",
            "compiling…\n".repeat(100),
            "note: detail\n".repeat(100)
        );
        let failure = extract_failure(&FailureFacts {
            tool_output: &output,
            ..FailureFacts::default()
        });
        assert!(
            failure.error.starts_with("error: the cause\nnote: detail\n"),
            "{}",
            failure.error
        );
        assert!(failure.error.ends_with("note: detail"));
        assert!(failure.error.chars().count() <= ERROR_CHARS);
        assert_eq!(failure.context, output.trim());

        let stderr = format!("{}last words", "line of noise\n".repeat(100));
        let failure = extract_failure(&FailureFacts {
            stderr_tail: &stderr,
            ..FailureFacts::default()
        });
        assert!(failure.error.starts_with("line of noise\n") && failure.error.ends_with("\nlast words"));
        assert!(failure.error.chars().count() <= ERROR_CHARS);
    }

    #[test]
    fn the_newest_attempts_are_named() {
        let entries: Vec<String> = (0..100).map(|n| format!("step\n{n:03}")).collect();
        let attempted = attempted(&entries);
        assert!(
            attempted.ends_with("step 098; step 099") && attempted.starts_with("step 050"),
            "{attempted}"
        );
        assert!(attempted.chars().count() <= ERROR_CHARS);
        assert_eq!(super::attempted(&["x ".repeat(400)]).chars().count(), 499);
    }

    #[test]
    fn changed_files_come_before_files_that_the_text_names() {
        let text = "See `src/lib.rs:12:3`, (./docs/a_b.md) and https://x.org/y.html, e.g. v1.2.3 or Cargo.toml. i.e. a/b.";
        let failure = extract_failure(&FailureFacts {
            text,
            changed_files: &["z.bin".to_owned(), "src/lib.rs".to_owned()],
            ..FailureFacts::default()
        });
        assert_eq!(
            failure.files,
            ["z.bin", "src/lib.rs", "docs/a_b.md", "Cargo.toml"]
        );
        assert_eq!(path_in("日本/語.rs"), Some("日本/語.rs"));
    }
}

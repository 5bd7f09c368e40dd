//! `<failure-report>`: what an agent says about its own failure (SPEC 4.1).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cut::cut_at_line;
use super::value::{Fault, required};

/// A stack trace keeps this many Unicode characters at most, in whole lines.
pub const STACK_TRACE_CHARS: usize = 500;

/// A failure in the agent's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// The approach. Never empty.
    pub what_tried: String,
    /// The cause. Never empty.
    pub why_failed: String,
    pub error_category: ErrorCategory,
    /// Paths, each once, in the order given.
    pub relevant_files: Vec<String>,
    /// At most [`STACK_TRACE_CHARS`] characters.
    pub stack_trace: Option<String>,
}

impl FailureReport {
    /// Only the five keys open a field, each once and at a line's start; every other line continues the field
    /// above. If the first line is indented, a line starts after the same indentation.
    pub(super) fn read(body: &str) -> Result<Self, Fault> {
        required(body)?;
        let mut fields: [Option<String>; Key::ALL.len()] = Default::default();
        let mut open: Option<usize> = None;
        let mut lines = body.lines().skip_while(|line| line.trim().is_empty()).peekable();
        let first = lines.peek().copied().unwrap_or_default();
        let indentation = &first[..first.len() - first.trim_start().len()];
        for line in lines {
            let line = line.strip_prefix(indentation).unwrap_or(line);
            if let Some((key, value)) = Key::opening(line)
                && fields[key].is_none()
            {
                fields[key] = Some(value.to_owned());
                open = Some(key);
            } else if let Some(field) = open.and_then(|key| fields[key].as_mut()) {
                field.push('\n');
                field.push_str(line);
            }
        }
        let [what_tried, why_failed, category, files, trace] = fields;
        let what_tried = required(what_tried.as_deref().unwrap_or_default())?.to_owned();
        let why_failed = required(why_failed.as_deref().unwrap_or_default())?.to_owned();
        let trace = trace.as_deref().and_then(|trace| required(trace).ok());
        Ok(Self {
            what_tried,
            why_failed,
            error_category: ErrorCategory::from_word(category.as_deref().unwrap_or_default()),
            relevant_files: paths(files.as_deref().unwrap_or_default()),
            stack_trace: trace.map(|trace| cut_at_line(trace, STACK_TRACE_CHARS).to_owned()),
        })
    }
}

/// The fields' keys, in the order in which `read` unpacks them.
struct Key;

impl Key {
    const ALL: [&'static str; 5] = [
        "what_tried",
        "why_failed",
        "error_category",
        "relevant_files",
        "stack_trace",
    ];

    /// The key's index and the rest of the line, if the line opens a field.
    fn opening(line: &str) -> Option<(usize, &str)> {
        let (word, value) = line.split_once(':')?;
        Some((Self::ALL.iter().position(|key| *key == word)?, value))
    }
}

/// Paths separated by commas or line ends, with or without list marks and back-quotes.
fn paths(text: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for path in text.split([',', '\n']) {
        let path = path.trim();
        let path = path.strip_prefix("- ").unwrap_or(path).trim().trim_matches('`');
        if let Ok(path) = required(path)
            && !paths.iter().any(|known| known == path)
            && paths.len() < MAX_FILES
        {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// A report keeps this many paths; more are no help to anybody.
const MAX_FILES: usize = 100;

/// The coarse kind of an error. Text form: snake_case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ErrorCategory {
    TestFailure,
    /// It doesn't build.
    BuildError,
    MissingFile,
    /// It does the wrong thing.
    LogicError,
    /// Types don't fit.
    TypeError,
    /// A dependency is missing or doesn't fit.
    DependencyError,
    /// It took too long.
    Timeout,
    /// None was given, or none of these.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ErrorCategory {
    const ALL: [Self; 8] = [
        Self::TestFailure,
        Self::BuildError,
        Self::MissingFile,
        Self::LogicError,
        Self::TypeError,
        Self::DependencyError,
        Self::Timeout,
        Self::Unknown,
    ];

    /// The category of this name, else [`ErrorCategory::Unknown`].
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        let word = word.trim();
        Self::ALL
            .into_iter()
            .find(|category| category.into_str().eq_ignore_ascii_case(word))
            .unwrap_or_default()
    }
}

impl fmt::Display for ErrorCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.into_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn all_fields_are_read_in_any_order() {
        let report = FailureReport::read(
            "\nstack_trace: at a\n    at b:3\nwhy_failed: no row\nrelevant_files: src/a.rs, `src/b.rs`,\n- src/ü.rs\n\
             error_category: Dependency_error\nwhat_tried: insert\n",
        )
        .unwrap();
        assert_eq!(
            report,
            FailureReport {
                what_tried: "insert".into(),
                why_failed: "no row".into(),
                error_category: ErrorCategory::DependencyError,
                relevant_files: vec!["src/a.rs".into(), "src/b.rs".into(), "src/ü.rs".into()],
                stack_trace: Some("at a\n    at b:3".into()),
            }
        );
    }

    #[test]
    fn every_other_line_continues_the_field_above() {
        let report = FailureReport::read(
            "ignored: before the first key\r\nwhat_tried: one\r\nnote: two\r\n  why_failed: three\r\nwhy_failed: four\r\n\
             what_tried: five",
        )
        .unwrap();
        assert_eq!(report.what_tried, "one\nnote: two\n  why_failed: three");
        assert_eq!(report.why_failed, "four\nwhat_tried: five");
        assert_eq!(
            (report.error_category, report.stack_trace),
            (ErrorCategory::Unknown, None)
        );
    }

    #[test]
    fn lines_of_an_indented_report_start_after_the_indentation() {
        let report =
            FailureReport::read("\n    what_tried: a\n    why_failed: b\n      why_failed: c\n").unwrap();
        assert_eq!(
            (report.what_tried.as_str(), report.why_failed.as_str()),
            ("a", "b\n  why_failed: c")
        );
    }

    #[test]
    fn both_required_fields_must_have_content() {
        for (body, fault) in [
            ("", Fault::Malformed),
            ("what_tried: a", Fault::Malformed),
            ("what_tried: a\nwhy_failed:  \n", Fault::Malformed),
            ("why_failed: a", Fault::Malformed),
            ("what_tried: …\nwhy_failed: …", Fault::Placeholder),
            (
                "what_tried: {the approach}\nwhy_failed: {the cause}",
                Fault::Placeholder,
            ),
        ] {
            assert_eq!(FailureReport::read(body), Err(fault), "{body:?}");
        }
    }

    #[test]
    fn a_stack_trace_keeps_whole_lines() {
        let line = "ä".repeat(99);
        let body = format!(
            "what_tried: a\nwhy_failed: b\nstack_trace: {}",
            [line.as_str(); 7].join("\n")
        );
        let trace = FailureReport::read(&body).unwrap().stack_trace.unwrap();
        assert_eq!(trace, [line.as_str(); 5].join("\n"));
        assert_eq!(trace.chars().count(), 499);
    }

    #[test]
    fn categories_of_a_later_version_are_unknown() {
        assert_eq!(
            serde_json::from_str::<ErrorCategory>("\"cosmic_ray\"").unwrap(),
            ErrorCategory::Unknown
        );
        for category in ErrorCategory::ALL {
            assert_eq!(
                serde_json::to_string(&category).unwrap(),
                format!("\"{category}\"")
            );
        }
    }
}

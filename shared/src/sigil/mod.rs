//! Messages from an agent to the system inside its message text (SPEC 4): XML-like tags, called sigils, and
//! two kinds of lines.
//!
//! [`parse()`] reads them, [`defuse()`] makes them harmless in remembered text (SPEC 6.8),
//! [`SigilName::form`] shows them to an agent in a form that never parses, and [`extract_failure`] makes a
//! failure report for an attempt that left none. All are pure functions of the joined text, never fail, and
//! take time linear in its length, whatever it contains.
//!
//! Rules that SPEC 4 leaves open:
//! - A closing tag belongs to the nearest opening tag of its name before it, so a sigil that was only
//!   mentioned ("I will write a `<journal>`") doesn't swallow the real one. Different names are independent: a
//!   sigil inside another's body counts, unless it ends the session.
//! - An opening tag may carry unknown attributes. Values are in double or single quotes and may contain
//!   anything but their quote, line ends and `>` included; a tag in a value is not a sigil.
//! - A body or a required attribute that is only `…`, `...` or one phrase in curly braces is a placeholder:
//!   the prompt's own form, quoted. It is ignored and not counted. Every other opening tag without effect
//!   counts as malformed.
//! - A sigil in a code fence or an HTML comment is only mentioned, unless it is a task graph.
//! - A sigil that the session's kind doesn't accept is plain text.
//!
//! Other modules read the graph inside `<task-graph>`, and act on verdicts.

mod attributes;
mod cut;
mod defuse;
mod endings;
mod extract;
mod failure_report;
mod forms;
mod lines;
mod memory;
mod name;
mod parse;
mod question;
#[cfg(test)]
mod rules;
mod scan;
mod shown;
mod signals;
#[cfg(test)]
mod torture;
mod value;

pub use defuse::{defuse, defuse_graphs};
pub use extract::{
    CONTEXT_CHARS, ERROR_CHARS, ExtractedFailure, FailureFacts, FailureSource, NOTHING_CAPTURED,
    extract_failure,
};
pub use failure_report::{ErrorCategory, FailureReport, STACK_TRACE_CHARS};
pub use memory::{
    KNOWLEDGE_WORDS, Knowledge, Learning, LearningCategory, MOST_TAGS, Note, NoteKind, TAG_CHARS, TITLE_CHARS,
};
pub use name::SigilName;
pub use parse::{Context, MAX_ENTRIES, parse};
pub use question::{CHOICE_CHARS, MOST_CHOICES, QUESTION_CHARS, Question};
pub use shown::ShownText;
pub use signals::{Difficulty, Promise, Sigils, UsedEntries, Verdict};

//! Notes of a feature's session memory.

use ralph_shared::sigil;

/// What a note tells (SPEC 6.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "text", rename_all = "snake_case")
)]
pub enum NoteKind {
    /// Something that is so.
    KeyFact,
    /// Something that was chosen.
    Decision,
    /// A completed step of the task.
    StepDone,
    /// A pending step of the task.
    StepPending,
    /// A path that was changed.
    FileModified,
    /// Why an attempt failed; it comes with a failure report, not from a note of an agent.
    Error,
}

impl NoteKind {
    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KeyFact => "key_fact",
            Self::Decision => "decision",
            Self::StepDone => "step_done",
            Self::StepPending => "step_pending",
            Self::FileModified => "file_modified",
            Self::Error => "error",
        }
    }
}

impl From<sigil::NoteKind> for NoteKind {
    fn from(noted: sigil::NoteKind) -> Self {
        match noted {
            sigil::NoteKind::KeyFact => Self::KeyFact,
            sigil::NoteKind::Decision => Self::Decision,
            sigil::NoteKind::StepDone => Self::StepDone,
            sigil::NoteKind::StepPending => Self::StepPending,
            sigil::NoteKind::FileModified => Self::FileModified,
        }
    }
}

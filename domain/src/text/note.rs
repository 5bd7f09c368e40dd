//! Notes of a feature's session memory.

use ralph_shared::sigil;

/// The kind of a note (SPEC 6.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "text", rename_all = "snake_case")
)]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NoteKind {
    KeyFact,
    Decision,
    /// A completed step of the task.
    StepDone,
    /// A pending step of the task.
    StepPending,
    /// A changed path.
    FileModified,
    /// The reason of a failed attempt; it comes from a failure report, not from an agent's note.
    Error,
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

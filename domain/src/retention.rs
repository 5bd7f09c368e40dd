//! Decides which attempt refs may be removed from the remote after their retention (DESIGN 6): landed ones,
//! and those that nobody will continue from.

use super::states::TaskState;

/// Facts on the task of an attempt ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub task: TaskState,
    /// Whether the attempt landed, even if it was reverted later.
    pub landed: bool,
}

/// The decision about a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefFate {
    /// It may be removed.
    Goes,
    Stays(RetentionReason),
}

/// Why a ref stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionReason {
    /// Its task is unfinished: another attempt may continue from it, or a person may approve it.
    TaskIsOpen,
    /// A person marked the task as done without a landing: the ref is the only copy of the work.
    OnlyCopy,
}

impl RetentionReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TaskIsOpen => "its task is not over",
            Self::OnlyCopy => "its task is done, but did not land: this ref has the only copy of the work",
        }
    }
}

pub fn decide(facts: Facts) -> RefFate {
    match facts.task {
        TaskState::Done if facts.landed => RefFate::Goes,
        TaskState::Done => RefFate::Stays(RetentionReason::OnlyCopy),
        TaskState::Cancelled | TaskState::Skipped => RefFate::Goes,
        TaskState::Pending
        | TaskState::Blocked
        | TaskState::InProgress
        | TaskState::Failed
        | TaskState::NeedsReview => RefFate::Stays(RetentionReason::TaskIsOpen),
    }
}

/// Retention of by-products of sessions, by kind. Days; `None` keeps rows forever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetentionDays {
    pub transcripts: Option<f64>,
    pub prompts: Option<f64>,
    /// Records of the memory entries that attempts got, after the attempts' end.
    pub uses: Option<f64>,
    /// Reports that could not be read or applied.
    pub bad_reports: Option<f64>,
}

impl Default for RetentionDays {
    fn default() -> Self {
        Self {
            transcripts: Some(90.0),
            prompts: Some(90.0),
            uses: Some(365.0),
            bad_reports: Some(30.0),
        }
    }
}

impl RetentionDays {
    /// Keeps uses at least as long as prompts: a purge finds the prompts to delete by them.
    #[must_use]
    pub fn with_uses_of_prompts(mut self) -> Self {
        self.uses = match (self.uses, self.prompts) {
            (Some(uses), Some(prompts)) => Some(uses.max(prompts)),
            _ => None,
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refs_that_nobody_needs_are_removed() {
        let rows = [
            (TaskState::Done, true, RefFate::Goes),
            (TaskState::Done, false, RefFate::Stays(RetentionReason::OnlyCopy)),
            (TaskState::Cancelled, false, RefFate::Goes),
            (TaskState::Cancelled, true, RefFate::Goes),
            (TaskState::Skipped, false, RefFate::Goes),
            (
                TaskState::Pending,
                false,
                RefFate::Stays(RetentionReason::TaskIsOpen),
            ),
            (
                TaskState::Pending,
                true,
                RefFate::Stays(RetentionReason::TaskIsOpen),
            ),
            (
                TaskState::Blocked,
                false,
                RefFate::Stays(RetentionReason::TaskIsOpen),
            ),
            (
                TaskState::InProgress,
                false,
                RefFate::Stays(RetentionReason::TaskIsOpen),
            ),
            (
                TaskState::Failed,
                false,
                RefFate::Stays(RetentionReason::TaskIsOpen),
            ),
            (
                TaskState::NeedsReview,
                false,
                RefFate::Stays(RetentionReason::TaskIsOpen),
            ),
        ];
        for (task, landed, fate) in rows {
            assert_eq!(decide(Facts { task, landed }), fate, "{task:?} {landed}");
        }
    }
}

//! What a person looks at before they approve: the work, what was said of it, and what became weaker in tests.

use serde::{Deserialize, Serialize};

use super::dispatch::DispatchView;
use super::task::TaskView;

/// A task that a person may want to look at, with what they go by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Examined {
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The last session that worked and has ended: its outcome, its files, what became weaker in tests.
    pub work: Option<DispatchView>,
    /// What was said of that work: verifications and integrations, with the gate's output in their reason.
    pub verdicts: Vec<DispatchView>,
    /// How much all attempts changed together, where that is known.
    pub lines: Option<ChangedLines>,
    /// What a person can do about it, as it is typed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// How much a change changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangedLines {
    /// Lines that are new.
    pub added: u32,
    /// Lines that are gone.
    pub removed: u32,
}

impl ChangedLines {
    /// Of a unified diff.
    pub fn of(diff: &str) -> Self {
        let mut lines = Self { added: 0, removed: 0 };
        let mut inside = false;
        for line in diff.lines() {
            if line.starts_with("diff --git ") {
                inside = false;
            } else if line.starts_with("@@") {
                inside = true;
            } else if inside {
                lines.added += u32::from(line.starts_with('+'));
                lines.removed += u32::from(line.starts_with('-'));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_diff_are_counted_and_its_heads_are_not() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n one\n-two\n--- three\n+2\n+3\n\
                    diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+y\n";
        let lines = ChangedLines::of(diff);
        assert_eq!((lines.added, lines.removed), (3, 2));
    }
}

//! Material for an approval: the work, its verdicts, and weakened tests.

use serde::{Deserialize, Serialize};

use super::dispatch::DispatchView;
use super::task::TaskView;

/// A task for a person's decision, with the facts that the decision needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Examined {
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The last ended work session: its outcome, files, and weakened tests.
    pub work: Option<DispatchView>,
    /// Verifications and integrations of that work, with the gate's output in their reasons.
    pub verdicts: Vec<DispatchView>,
    /// Lines that all attempts changed together, if known.
    pub lines: Option<ChangedLines>,
    /// Commands that a person can type to decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Size of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangedLines {
    /// New lines.
    pub added: u32,
    /// Removed lines.
    pub removed: u32,
}

impl ChangedLines {
    /// Counts the lines of a unified diff.
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
    fn changed_lines_of_a_diff_count_and_its_headers_do_not() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n one\n-two\n--- three\n+2\n+3\n\
                    diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+y\n";
        let lines = ChangedLines::of(diff);
        assert_eq!((lines.added, lines.removed), (3, 2));
    }
}

//! All changes of an attempt, according to git, for its verifier (SPEC 5).

use serde::{Deserialize, Serialize};

/// The difference between the start of the task's work and the judged commit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// The commit at which the work of all attempts left the feature's branch. Hex object id.
    pub base: String,
    /// The beginning of the difference, as `git diff` prints it, lossily as UTF-8.
    #[serde(default)]
    pub diff: String,
    /// Whether the difference is longer.
    #[serde(default)]
    pub diff_cut: bool,
    /// Weakened tests, as far as lines show them; the gravest first.
    #[serde(default)]
    pub tests: Vec<TestChange>,
    /// Number of further findings.
    #[serde(default)]
    pub tests_more: u32,
    /// Whether the difference was too long for a complete search.
    #[serde(default)]
    pub tests_unread: bool,
}

/// A weakened part of a test file, or a changed configuration of Ralph's. A finding, not a verdict: each may
/// have good reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TestChange {
    /// The file, lossily as UTF-8.
    pub path: String,
    /// The kind of change.
    pub kind: TestChangeKind,
    /// The lines, without the diff's sign. Lines that skip tests or configure were added; all others were
    /// removed.
    pub lines: Vec<String>,
    /// Number of further lines.
    #[serde(default)]
    pub more: u32,
}

/// The way in which a test was weakened, the gravest first. Changes of Ralph's own behaviour precede all.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TestChangeKind {
    /// No test: a configuration of Ralph's, which decides what runs on the machine of anybody who starts it
    /// there.
    Configuration,
    /// No test: a file that decides what is checked, what is built or which instructions agents get.
    Checks,
    /// No test: new files that look like no work, by their size, their number or their folder's name.
    Bulk,
    /// The file was deleted, or moved to a place without tests.
    FileDeleted,
    /// Tests were removed from it.
    TestsRemoved,
    /// Tests are marked to be skipped, or all others are.
    Skipped,
    /// Assertions were removed or replaced.
    AssertionsRemoved,
    /// Other lines were removed.
    LinesRemoved,
    /// Git doesn't show how it changed: it is binary, or an attribute says so.
    Hidden,
}

impl TestChangeKind {
    /// What happened, for people and agents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configures what Ralph itself runs and confines",
            Self::Checks => "may change what is checked, built, or told to agents",
            Self::Bulk => "new, and large, numerous or build output",
            Self::FileDeleted => "test file deleted",
            Self::TestsRemoved => "tests removed",
            Self::Skipped => "tests skipped",
            Self::AssertionsRemoved => "assertions removed",
            Self::LinesRemoved => "lines removed",
            Self::Hidden => "changed, but git doesn't show how",
        }
    }
}

//! What an attempt changed in all, as git tells it: for whoever judges it (SPEC 5).

use serde::{Deserialize, Serialize};

/// The difference between where the task's work began and the commit that is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// Where the work of all attempts left the feature's branch. Hex object id.
    pub base: String,
    /// The beginning of the difference, as `git diff` prints it, lossily as UTF-8.
    #[serde(default)]
    pub diff: String,
    /// Whether there is more of it.
    #[serde(default)]
    pub diff_cut: bool,
    /// What became weaker in tests, as far as that can be seen from lines; the gravest first.
    #[serde(default)]
    pub tests: Vec<TestChange>,
    /// How many more such findings there are.
    #[serde(default)]
    pub tests_more: u32,
    /// The difference was too long to be looked through for such findings to its end.
    #[serde(default)]
    pub tests_unread: bool,
}

/// Something in a test file that became less, or a configuration of Ralph's that changed. A finding, not a verdict: there are good reasons for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TestChange {
    /// The file, lossily as UTF-8.
    pub path: String,
    /// What became of it.
    pub kind: TestChangeKind,
    /// The lines, without the diff's sign; those that mark a test as skipped or configure were added, all others removed.
    pub lines: Vec<String>,
    /// How many more lines there are.
    #[serde(default)]
    pub more: u32,
}

/// How a test became less, the gravest first; before all, that Ralph itself would do something else.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TestChangeKind {
    /// No test: a configuration of Ralph's, which says what runs on the machine of whoever starts it there.
    Configuration,
    /// No test: a file that decides what is checked, what is built or what agents are told.
    Checks,
    /// No test: new files that look like no work, for their size, their number or their folder's name.
    Bulk,
    /// The file is gone, or moved to where no test is looked for.
    FileDeleted,
    /// Tests are gone from it.
    TestsRemoved,
    /// Tests are marked to be skipped, or all others are.
    Skipped,
    /// Assertions are gone, or became others.
    AssertionsRemoved,
    /// Other lines are gone.
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
            Self::Bulk => "new, and large, many or of a build",
            Self::FileDeleted => "test file deleted",
            Self::TestsRemoved => "tests removed",
            Self::Skipped => "tests skipped",
            Self::AssertionsRemoved => "assertions removed",
            Self::LinesRemoved => "lines removed",
            Self::Hidden => "changed, but git doesn't show how",
        }
    }
}

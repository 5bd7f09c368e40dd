//! Everything that one session said, and what it comes to.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::failure_report::FailureReport;
use super::memory::{Knowledge, Learning, Note};
use super::question::Question;
use crate::kind::SessionKind;

/// The valid sigils of one text, those only that its session kind takes (SPEC 4.1). Texts are trimmed and never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sigils {
    /// `<task-done>` with the assigned task's id, and no `<task-failed>` after it.
    pub task_done: bool,
    /// `<task-failed>` with the assigned task's id, and no `<task-done>` after it.
    pub task_failed: bool,
    /// The last `<promise>`.
    pub promise: Option<Promise>,
    /// `<next-model>`: one of the configured tiers.
    pub next_model: Option<String>,
    pub journal: Option<String>,
    /// Every `<knowledge>`, in order.
    pub knowledge: Vec<Knowledge>,
    pub failure_report: Option<FailureReport>,
    pub retry_suggestion: Option<String>,
    /// Every `<learning>`, in order.
    pub learnings: Vec<Learning>,
    /// `<difficulty-estimate>`
    pub difficulty: Option<Difficulty>,
    /// `<task-graph>`: the raw text, not yet checked as a graph (SPEC 2.6).
    pub task_graph: Option<String>,
    /// Every `<memory>` and every `AGENTIUM_MEMORY:` line, in the text's order.
    pub notes: Vec<Note>,
    /// Every `<question>`, in order.
    pub questions: Vec<Question>,
    pub verify_pass: bool,
    /// `<verify-fail>`: the reason.
    pub verify_fail: Option<String>,
    pub review_pass: bool,
    /// `<review-changes>`: the whole body; a graph inside stands in `task_graph` too.
    pub review_changes: Option<String>,
    /// What every `<used>` says.
    pub used: UsedEntries,
    /// The first `FAILURE_REASON:` line (SPEC 4.2).
    pub failure_reason: Option<String>,
    /// How many sigils came to nothing: unclosed, empty, another task's id, unknown value, missing attribute. Placeholders
    /// and valid ones that came after the first are not counted.
    pub malformed: u32,
    /// How many valid ones were left out because their list was full ([`super::MAX_ENTRIES`]).
    pub left_out: u32,
}

/// `<used>`: what remembered entries were worth to the session. Ids as written, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsedEntries {
    pub helped: Vec<String>,
    /// They were wrong, or led astray.
    pub misled: Vec<String>,
}

impl Sigils {
    /// Why the agent says that it failed: its report, else its `FAILURE_REASON:` line.
    #[must_use]
    pub fn why_failed(&self) -> Option<&str> {
        let reported = self
            .failure_report
            .as_ref()
            .map(|report| report.why_failed.as_str());
        reported.or(self.failure_reason.as_deref())
    }

    /// What the text decides for a session of this kind, its stop reason being `end_turn` (SPEC 3.2).
    #[must_use]
    pub fn verdict(&self, kind: SessionKind) -> Verdict {
        let has_graph = self.task_graph.is_some();
        match kind {
            SessionKind::Work if self.task_done => Verdict::Done,
            SessionKind::Work if has_graph => Verdict::Split,
            SessionKind::Work if self.task_failed => Verdict::Failed,
            SessionKind::Build if has_graph => Verdict::Graph,
            SessionKind::Verify if self.verify_fail.is_some() => Verdict::VerifyFail,
            SessionKind::Verify if self.verify_pass => Verdict::VerifyPass,
            SessionKind::Review if self.review_changes.is_some() || has_graph => Verdict::ReviewChanges,
            SessionKind::Review if self.review_pass => Verdict::ReviewPass,
            _ => Verdict::None,
        }
    }
}

/// What a session's text decides. The stricter one wins where a text says two things, except that done wins over all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The task is done, says its agent.
    Done,
    /// The task is to be split by `task_graph`; if that is no valid graph, `task_failed` may still stand.
    Split,
    /// The task failed, says its agent.
    Failed,
    /// A build session made `task_graph`.
    Graph,
    /// The attempt holds.
    VerifyPass,
    /// The attempt doesn't hold, for the reason in `verify_fail`.
    VerifyFail,
    /// The feature holds.
    ReviewPass,
    /// The feature needs `task_graph`, else `review_changes`.
    ReviewChanges,
    /// Nothing. Sessions that end with a text of their own (`spec`, `plan`, `distill`) never say more.
    None,
}

/// `<promise>`: what the agent says of the whole run (SPEC 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Everything is done; honoured only when it is.
    Complete,
    /// It can't be done; ends the run.
    Failure,
}

impl Promise {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word {
            "COMPLETE" => Some(Self::Complete),
            "FAILURE" => Some(Self::Failure),
            _ => None,
        }
    }
}

/// `<difficulty-estimate>`, from easy to impossible. Text form: the lower-case word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difficulty {
    /// A few lines in one file.
    Trivial,
    /// By a pattern that is there.
    Easy,
    /// Several modules, some decisions.
    Moderate,
    /// Across modules, or subtle.
    Hard,
    /// Not without help from outside; with `task_failed` it sends the task to `needs_review`.
    Blocked,
}

impl Difficulty {
    /// The word in the sigil.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trivial => "trivial",
            Self::Easy => "easy",
            Self::Moderate => "moderate",
            Self::Hard => "hard",
            Self::Blocked => "blocked",
        }
    }

    /// The estimate of this name, in lower case.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Trivial,
            Self::Easy,
            Self::Moderate,
            Self::Hard,
            Self::Blocked,
        ]
        .into_iter()
        .find(|difficulty| difficulty.as_str() == word)
    }
}

impl fmt::Display for Difficulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_verdict_wins_except_against_done() {
        let text = || Some("x".to_owned());
        let all = Sigils {
            task_done: true,
            task_failed: true,
            task_graph: text(),
            verify_pass: true,
            verify_fail: text(),
            review_pass: true,
            review_changes: text(),
            ..Sigils::default()
        };
        let check = |kind, left_out: fn(&mut Sigils), expected| {
            let mut sigils = all.clone();
            left_out(&mut sigils);
            assert_eq!(sigils.verdict(kind), expected, "{kind}");
        };
        check(SessionKind::Work, |_| (), Verdict::Done);
        check(
            SessionKind::Work,
            |sigils| sigils.task_done = false,
            Verdict::Split,
        );
        check(
            SessionKind::Work,
            |sigils| (sigils.task_done, sigils.task_graph) = (false, None),
            Verdict::Failed,
        );
        check(SessionKind::Build, |_| (), Verdict::Graph);
        check(SessionKind::Verify, |_| (), Verdict::VerifyFail);
        check(
            SessionKind::Verify,
            |sigils| sigils.verify_fail = None,
            Verdict::VerifyPass,
        );
        check(SessionKind::Review, |_| (), Verdict::ReviewChanges);
        check(
            SessionKind::Review,
            |sigils| sigils.review_changes = None,
            Verdict::ReviewChanges,
        );
        check(
            SessionKind::Review,
            |sigils| (sigils.review_changes, sigils.task_graph) = (None, None),
            Verdict::ReviewPass,
        );
        for kind in [
            SessionKind::Spec,
            SessionKind::Plan,
            SessionKind::Distill,
            SessionKind::Integrate,
            SessionKind::Git,
        ] {
            check(kind, |_| (), Verdict::None);
        }
    }
}

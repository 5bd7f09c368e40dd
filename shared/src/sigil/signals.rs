//! The sigils of one session, and their verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::failure_report::FailureReport;
use super::memory::{Knowledge, Learning, Note};
use super::question::Question;
use crate::kind::SessionKind;

/// The valid sigils of one text, only those that its session kind accepts (SPEC 4.1). Texts are trimmed and
/// never empty.
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
    /// `<review-changes>`: the whole body; a graph inside is in `task_graph` too.
    pub review_changes: Option<String>,
    /// The entries of every `<used>`.
    pub used: UsedEntries,
    /// The first `FAILURE_REASON:` line (SPEC 4.2).
    pub failure_reason: Option<String>,
    /// Number of sigils without effect: unclosed, empty, another task's id, unknown value, missing attribute.
    /// Placeholders, and valid ones after the first, are not counted.
    pub malformed: u32,
    /// Number of valid sigils that were left out because their list was full ([`super::MAX_ENTRIES`]).
    pub left_out: u32,
}

/// `<used>`: the session's judgement of remembered entries. Ids as written, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsedEntries {
    pub helped: Vec<String>,
    /// Entries that were wrong, or misled the session.
    pub misled: Vec<String>,
}

impl Sigils {
    /// The agent's reason for its failure: from its report, else from its `FAILURE_REASON:` line.
    #[must_use]
    pub fn why_failed(&self) -> Option<&str> {
        let reported = self
            .failure_report
            .as_ref()
            .map(|report| report.why_failed.as_str());
        reported.or(self.failure_reason.as_deref())
    }

    /// The verdict of the text for a session of this kind with the stop reason `end_turn` (SPEC 3.2).
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

/// The verdict of a session's text. If a text gives two, the stricter one counts, except that done precedes
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The agent reports that the task is done.
    Done,
    /// `task_graph` splits the task; if that is no valid graph, `task_failed` may still apply.
    Split,
    /// The agent reports that the task failed.
    Failed,
    /// A build session made `task_graph`.
    Graph,
    /// The attempt is accepted.
    VerifyPass,
    /// The attempt is refused, for the reason in `verify_fail`.
    VerifyFail,
    /// The feature is accepted.
    ReviewPass,
    /// The feature needs `task_graph`, else `review_changes`.
    ReviewChanges,
    /// No verdict. Sessions that end with a text of their own (`spec`, `plan`, `distill`) never give one.
    None,
}

/// `<promise>`: the agent's statement on the whole run (SPEC 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Everything is done; it counts only if that is true.
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
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Difficulty {
    /// A few lines in one file.
    Trivial,
    /// By an existing pattern.
    Easy,
    /// Several modules, some decisions.
    Moderate,
    /// Across modules, or subtle.
    Hard,
    /// Not without help from outside; with `task_failed` it sends the task to `needs_review`.
    Blocked,
}

impl Difficulty {
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
        .find(|difficulty| difficulty.into_str() == word)
    }
}

impl fmt::Display for Difficulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.into_str())
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

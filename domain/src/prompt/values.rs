//! Values of prompts, as they were stored. Rendering bounds and defuses them.

use std::sync::{Arc, OnceLock};

use ralph_shared::wire::Change;
use time::OffsetDateTime;
use uuid::Uuid;

/// The assigned task and its context (SPEC 6.1).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskContext {
    /// Short form.
    pub id: String,
    pub title: String,
    pub description: String,
    pub parent: Option<Parent>,
    pub prerequisites: Vec<Prerequisite>,
    /// Number of further prerequisites, which are not listed.
    pub more_prerequisites: usize,
    /// The conflict that the task's files contain, if any.
    pub conflict: Option<Conflict>,
    pub feature: String,
    pub feature_description: String,
    pub spec: Option<String>,
    pub plan: Option<String>,
    /// The commit that the feature started from.
    pub base: Option<String>,
    /// The folder that the session works in directly.
    pub dir: Option<String>,
    /// Files that the last attempt changed there, for a verifier without a clone.
    pub dir_changed: Vec<String>,
    /// Learnings for a `distill` session.
    pub merging: Option<Merging>,
    /// People's feedback on an earlier attempt, when no memory section shows it.
    pub feedback: Option<String>,
    /// Commands that must succeed on the commit that lands.
    pub gate: Vec<String>,
    /// Whether they are known to fail on the commit that the feature started from.
    pub gate_fails: bool,
    /// Whether another session judges the attempt.
    pub is_verified: bool,
    pub branch: Option<String>,
    /// The earlier work in the session's folder.
    pub holds: Option<HeldWork>,
    /// Other tasks of the feature, the most important first.
    pub neighbours: Vec<Neighbour>,
    /// Titles of tasks that landed on the feature's branch, oldest first, for a review.
    pub landed: Vec<String>,
}

/// The task and attempt whose work is in a session's folder at its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldWork {
    /// Short form of the task.
    pub task: String,
    pub attempt: String,
}

/// Another task of the feature.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbour {
    pub id: String,
    pub title: String,
    pub relation: Relation,
    /// Its declared paths.
    pub paths: Vec<String>,
}

/// A neighbour's relation to a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Relation {
    /// It waits for the task.
    Dependent,
    /// Another session works on it.
    Running,
    /// It runs later.
    #[default]
    Waiting,
}

/// Learnings that a session merges (SPEC 6.7).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merging {
    /// Their common keyword.
    pub tag: String,
    /// Oldest first.
    pub learnings: Vec<Mergeable>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mergeable {
    /// Short form.
    pub id: String,
    pub category: String,
    pub tags: Vec<String>,
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parent {
    pub id: String,
    pub title: String,
    pub description: String,
}

/// A blocker that is done or skipped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prerequisite {
    pub id: String,
    pub title: String,
    pub skipped: bool,
    /// The summary of its last session, for later sessions.
    pub summary: Option<String>,
}

/// A conflict that the session starts with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conflict {
    /// Files with conflict markers.
    pub paths: Vec<String>,
    /// Tasks on the other side, newest first.
    pub others: Vec<OtherSide>,
}

/// A landed task that another one conflicts with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherSide {
    pub id: String,
    pub title: String,
    pub description: String,
    /// The summary of its last session, for later sessions.
    pub summary: Option<String>,
}

/// All memory for one prompt. For each list that may be cut, the doc says which end matters more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Number of this prompt's attempt, from 1.
    pub attempt: i32,
    /// Earlier attempts, oldest first; the newest matter more.
    pub attempts: Vec<Attempt>,
    /// Number of still earlier attempts, which are not shown.
    pub older_attempts: usize,
    /// Failures of siblings, oldest first; the newest matter more.
    pub siblings: Vec<SiblingFailure>,
    /// Notes of this feature's sessions.
    pub session: SessionMemory,
    /// Best first.
    pub learnings: Vec<Learning>,
    /// The progress of the run.
    pub status: Option<LoopStatus>,
    /// Most useful first.
    pub journal: Vec<Arc<SharedEntry>>,
    /// Best first.
    pub knowledge: Vec<Knowledge>,
}

/// An earlier attempt (SPEC 6.3).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attempt {
    pub number: i32,
    pub model: Option<String>,
    pub outcome: String,
    /// Whether its session did work of its own; a lost or interrupted one did not.
    pub was_tried: bool,
    pub ended_at: Option<OffsetDateTime>,
    pub report: Option<Report>,
    /// The reason of the outcome, unless it comes from the agent.
    pub reason: Option<String>,
    /// Whether `reason` is the verifier's.
    pub verified: bool,
    /// The earlier attempt that failed in the same way.
    pub same_as: Option<i32>,
    /// A person's feedback on it.
    pub feedback: Option<String>,
    /// The ref of its work, without `refs/heads/`.
    pub branch: Option<String>,
    /// Refs of its agent's stray commits.
    pub strays: Vec<String>,
}

/// A failure report (SPEC 4.1, 4.3).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub extracted: bool,
    pub tried: String,
    pub why: String,
    pub category: String,
    pub files: Option<String>,
    pub error: Option<String>,
    pub suggestion: Option<String>,
}

/// A failure of a sibling (SPEC 6.3, Failure Context).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiblingFailure {
    pub task: String,
    pub title: String,
    /// The kind of failure.
    pub category: String,
    /// The agent's words; empty unless they are verified.
    pub error: String,
    pub attempted: String,
    pub files: Option<String>,
    pub context: Option<String>,
    pub ended_at: Option<OffsetDateTime>,
}

/// Notes of a feature's sessions (SPEC 6.4). Lists are oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionMemory {
    pub feature: String,
    pub phase: String,
    pub branch: Option<String>,
    pub pull_request: Option<String>,
    pub completed: Vec<String>,
    pub pending: Vec<String>,
    pub blocked: Option<String>,
    pub files_modified: Vec<String>,
    pub errors: Vec<UnresolvedError>,
    pub decisions: Vec<Decision>,
    pub key_facts: Vec<String>,
}

/// An error that no attempt has resolved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnresolvedError {
    pub iteration: Option<i32>,
    pub phase: String,
    /// Short form of the task.
    pub task: String,
    /// The kind of failure.
    pub category: String,
    /// The agent's words; empty unless they are verified.
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub text: String,
    pub rationale: Option<String>,
}

/// An entry's source and age, and who confirmed it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provenance {
    /// Short form of the entry's id; agents report by it that the entry helped or misled.
    pub id: String,
    /// Short form of the task that learned it; `None` for an entry from a person or a file.
    pub task: Option<String>,
    /// The attempt, if it is one of the same task and nobody has verified it yet.
    pub unverified: Option<i32>,
    pub days: i64,
    /// Further attempts that learned the same.
    pub witnesses: i64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learning {
    pub provenance: Provenance,
    pub category: String,
    pub text: String,
}

/// The progress of the run (SPEC 6.6).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopStatus {
    pub iteration: i32,
    pub limit: Option<i32>,
    pub failures: i16,
    pub model: Option<String>,
    pub model_reason: Option<String>,
    pub stuck: bool,
    /// Whether the last two attempts failed in the same way.
    pub same_again: bool,
}

/// A journal entry (SPEC 6.5).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JournalEntry {
    pub dispatch: Uuid,
    /// Number in this run; `None` for an earlier run's entry, and for a step.
    pub iteration: Option<i32>,
    /// The kind of this run's step.
    pub step: Option<String>,
    pub outcome: String,
    pub task: String,
    pub title: String,
    pub model: Option<String>,
    pub files: Vec<String>,
    pub notes: String,
    /// Whether the notes are left out, since they quote a revoked entry.
    pub is_doubted: bool,
    /// A person's feedback on it.
    pub feedback: Option<String>,
    /// The approach and the reason of its failure, unless another section shows them.
    pub failure: Option<(String, String)>,
}

/// A journal entry that many prompts share, all with the same text.
#[derive(Debug, Clone, Default)]
pub struct SharedEntry {
    pub entry: JournalEntry,
    /// The text, once a prompt has rendered it.
    text: OnceLock<String>,
}

impl SharedEntry {
    /// The text; the first caller renders it.
    pub(super) fn text(&self, write: impl FnOnce(&JournalEntry) -> String) -> &str {
        self.text.get_or_init(|| write(&self.entry))
    }
}

impl From<JournalEntry> for Arc<SharedEntry> {
    fn from(entry: JournalEntry) -> Self {
        Arc::new(SharedEntry {
            entry,
            text: OnceLock::new(),
        })
    }
}

impl PartialEq for SharedEntry {
    fn eq(&self, other: &Self) -> bool {
        self.entry == other.entry
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knowledge {
    pub provenance: Provenance,
    pub title: String,
    pub body: String,
}

/// An attempt for a verifier to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub attempt: i32,
    /// The task's change, if its worker reported it.
    pub change: Option<Change>,
    /// People's feedback on the attempt, during work and verification.
    pub feedback: Option<String>,
    /// A reason to doubt the attempt, though its agent considers it done.
    pub doubt: Option<String>,
    /// Refusals of earlier attempts by verifiers and the gate, oldest first.
    pub verdicts: Vec<Verdict>,
}

/// The refusal of an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub attempt: i32,
    /// Whether the gate refused it, not a verifier.
    pub by_gate: bool,
    pub reason: String,
}

//! What is remembered at the moment of a claim, read for a whole batch and laid out for each prompt (SPEC 6).

use std::collections::{BTreeMap, HashSet};

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use super::claim::Opened;
use crate::domain::run::Run;
use crate::domain::states::{Kind, Outcome};
use crate::prompt;
use crate::store;
use crate::store::context::{Earlier, FailureReport, JournalEntry, TaskFacts};
use crate::store::memory::Note;

/// Journal entries of the run that a prompt may show (SPEC 6.5).
const JOURNAL_ENTRIES: i64 = 5;
/// So many failures in a row, and the task is stuck (SPEC 6.7).
const STUCK_THRESHOLD: i16 = 3;

/// The memory of a batch of claims.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    earlier: Vec<Earlier>,
    journal: Vec<JournalEntry>,
    notes: Vec<Note>,
}

impl Remembered {
    /// Reads it.
    pub(super) async fn read(
        conn: &mut PgConnection,
        opened: &[Opened],
        tasks: &[TaskFacts],
    ) -> sqlx::Result<Self> {
        let working: HashSet<TaskId> = opened
            .iter()
            .filter(|d| d.kind == Kind::Work)
            .map(|d| d.task)
            .collect();
        if working.is_empty() {
            return Ok(Self::default());
        }
        let again: Vec<Uuid> = opened
            .iter()
            .filter(|d| d.kind == Kind::Work && d.attempt > 1)
            .map(|d| d.task.0)
            .collect();
        let earlier = if again.is_empty() {
            Vec::new()
        } else {
            store::context::earlier(conn, &again).await?
        };
        let mut features: Vec<Uuid> = tasks
            .iter()
            .filter(|t| working.contains(&t.task))
            .map(|t| t.feature.0)
            .collect();
        features.sort_unstable();
        features.dedup();
        Ok(Self {
            earlier,
            journal: store::context::journal(conn, &features, JOURNAL_ENTRIES).await?,
            notes: store::memory::notes(conn, &features).await?,
        })
    }

    /// Lays out what one prompt may show.
    pub(super) fn of(&self, task: &TaskFacts, run: &Run, dispatch: &Opened) -> prompt::Memory {
        let earlier: Vec<&Earlier> = self.earlier.iter().filter(|e| e.task == task.task).collect();
        let attempts = attempts(&earlier);
        prompt::Memory {
            attempt: dispatch.attempt,
            session: self.session(task, &earlier),
            attempts,
            siblings: Vec::new(),
            learnings: Vec::new(),
            status: Some(status(task, run, dispatch)),
            journal: self.journal(task.feature, run),
            knowledge: Vec::new(),
        }
    }

    /// The newest entries of this run.
    fn journal(&self, feature: FeatureId, run: &Run) -> Vec<prompt::JournalEntry> {
        let of_run = |entry: &&JournalEntry| entry.feature == feature && entry.run == run.id.0;
        self.journal
            .iter()
            .rev()
            .filter(of_run)
            .zip(0..)
            .map(|(entry, back)| journal_entry(entry, Some(run.iterations - back).filter(|n| *n > 0)))
            .collect()
    }

    fn session(&self, task: &TaskFacts, earlier: &[&Earlier]) -> prompt::SessionMemory {
        let notes: Vec<&Note> = self
            .notes
            .iter()
            .filter(|n| n.feature == task.feature.0)
            .collect();
        let own = |kind: &str| -> Vec<String> {
            let mine = notes
                .iter()
                .filter(|n| n.kind == kind && n.task == Some(task.task.0));
            distinct(mine.map(|n| n.body.clone()))
        };
        let completed = own("step_done");
        let pending = own("step_pending")
            .into_iter()
            .filter(|step| !completed.iter().any(|done| same(done, step)))
            .collect();
        let mut files = own("file_modified");
        files.extend(earlier.iter().flat_map(|e| e.files_changed.iter().cloned()));
        prompt::SessionMemory {
            feature: task.feature_name.clone(),
            phase: SessionKind::Work.as_str().to_owned(),
            branch: task.branch.clone(),
            pull_request: None,
            completed,
            pending,
            blocked: None,
            files_modified: distinct(files.into_iter()),
            errors: Vec::new(),
            decisions: notes
                .iter()
                .filter(|n| n.kind == "decision")
                .map(|n| prompt::Decision {
                    text: n.body.clone(),
                    rationale: n.rationale.clone(),
                })
                .collect(),
            key_facts: distinct(
                notes
                    .iter()
                    .filter(|n| n.kind == "key_fact")
                    .map(|n| n.body.clone()),
            ),
        }
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

/// In order, without what was said before.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts
        .filter(|text| seen.insert(text.trim().to_lowercase()))
        .collect()
}

fn status(task: &TaskFacts, run: &Run, dispatch: &Opened) -> prompt::LoopStatus {
    prompt::LoopStatus {
        iteration: run.iterations + 1,
        limit: run.settings.max_iterations,
        failures: task.failures,
        iterations: run.iterations,
        succeeded: run.succeeded,
        model: dispatch.model.as_ref().map(|m| m.model.clone()),
        model_reason: dispatch
            .model
            .as_ref()
            .map(|m| m.reason.clone())
            .filter(|why| !why.is_empty()),
        stuck: task.failures >= STUCK_THRESHOLD,
    }
}

/// Dispatches joined to attempts (SPEC 1): the work, and what verification and integration made of it. Oldest first.
fn attempts(earlier: &[&Earlier]) -> Vec<prompt::Attempt> {
    let mut by_number: BTreeMap<i32, Vec<&Earlier>> = BTreeMap::new();
    for one in earlier {
        by_number.entry(one.attempt).or_default().push(one);
    }
    by_number
        .values()
        .filter_map(|dispatches| attempt(dispatches))
        .collect()
}

fn attempt(dispatches: &[&Earlier]) -> Option<prompt::Attempt> {
    let work = dispatches.iter().rev().find(|d| d.kind == Kind::Work)?;
    // A failure at the door is nobody's attempt (SPEC 7.3).
    if work.outcome == Outcome::Door {
        return None;
    }
    let against = dispatches.iter().rev().find(|d| {
        d.kind != Kind::Work
            && matches!(
                d.outcome,
                Outcome::Failed | Outcome::Conflict | Outcome::NoSigil | Outcome::Error
            )
    });
    let (outcome, reason) = match against {
        Some(judge) if judge.kind == Kind::Verify => ("failed verification", judge.reason.clone()),
        Some(judge) if judge.outcome == Outcome::Conflict => ("conflict", judge.reason.clone()),
        Some(judge) => ("failed integration", judge.reason.clone()),
        // The agent's report, or what was extracted, says it better.
        None if work.report.is_some() => (work.outcome.as_str(), None),
        None => (work.outcome.as_str(), work.reason.clone()),
    };
    Some(prompt::Attempt {
        number: work.attempt,
        model: work.model.clone(),
        outcome: outcome.to_owned(),
        duration_ms: work.duration_ms,
        report: work.report.as_ref().map(report),
        reason,
        verified: against.is_some_and(|judge| judge.kind == Kind::Verify),
        feedback: work.feedback.clone(),
        branch: work
            .pushed_ref
            .as_deref()
            .map(|name| name.trim_start_matches("refs/heads/").to_owned()),
    })
}

fn report(report: &FailureReport) -> prompt::Report {
    prompt::Report {
        extracted: report.extracted,
        tried: report.what_tried.clone(),
        why: report.why_failed.clone(),
        category: report.category.clone(),
        files: report.relevant_files.clone(),
        error: report.error_output.clone(),
        suggestion: report.retry_suggestion.clone(),
    }
}

fn journal_entry(entry: &JournalEntry, iteration: Option<i32>) -> prompt::JournalEntry {
    prompt::JournalEntry {
        dispatch: entry.dispatch,
        iteration,
        outcome: journal_word(entry).to_owned(),
        task: entry.task.to_string(),
        title: entry.task_title.clone(),
        model: entry.model.clone(),
        duration_ms: entry.duration_ms,
        cost_usd: entry.cost_usd,
        files: entry.files_changed.clone(),
        notes: entry.journal.clone(),
    }
}

/// The outcome in the journal's words (SPEC 3.3).
fn journal_word(entry: &JournalEntry) -> &'static str {
    match entry.outcome {
        Outcome::Done if entry.sent_back => "retried",
        Outcome::Conflict => "retried",
        Outcome::NoSigil => "blocked",
        Outcome::Interrupted | Outcome::Lost => "interrupted",
        Outcome::Done | Outcome::Split => entry.outcome.as_str(),
        _ => "failed",
    }
}

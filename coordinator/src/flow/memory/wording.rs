//! Converts memory rows into the values of prompt sections.

use ralph_shared::ids::TaskId;
use time::OffsetDateTime;

use crate::domain::recall::Kind;
use crate::domain::run::Run;
use crate::domain::states::Outcome;
use crate::flow::claim::opened::Opened;
use crate::prompt;
use crate::store::dispatch::context::TaskFacts;
use crate::store::dispatch::earlier::JournalEntry;
use crate::store::memory::Own;
use crate::store::memory::library::Stored;
use crate::store::view::memory_id;

pub(in crate::flow) fn status(
    task: &TaskFacts,
    run: &Run,
    dispatch: &Opened,
    stuck_threshold: i16,
    attempts: &[prompt::Attempt],
) -> prompt::LoopStatus {
    // The last attempts, which failed in the same way.
    let same_again = task.failures > 1
        && attempts
            .last()
            .is_some_and(|last| last.same_as == Some(before(attempts)));
    prompt::LoopStatus {
        iteration: run.iterations + 1,
        limit: run.settings.max_iterations,
        failures: task.failures,
        model: dispatch.model.as_ref().map(|m| m.model.clone()),
        model_reason: dispatch
            .model
            .as_ref()
            .map(|m| m.reason.clone())
            .filter(|why| !why.is_empty()),
        stuck: same_again || (1..=task.failures).contains(&stuck_threshold),
        same_again,
    }
}

/// The number of the attempt before the last one.
fn before(attempts: &[prompt::Attempt]) -> i32 {
    attempts.iter().rev().nth(1).map_or(0, |attempt| attempt.number)
}

/// Days that an entry is old.
fn days(since: OffsetDateTime, now: OffsetDateTime) -> i64 {
    (now - since).whole_days().max(0)
}

/// The provenance of an entry of the task itself.
pub(in crate::flow) fn own_provenance(own: &Own, now: OffsetDateTime) -> prompt::Provenance {
    let kind = if own.is_knowledge {
        Kind::Knowledge
    } else {
        Kind::Learning
    };
    prompt::Provenance {
        id: memory_id(kind, own.id),
        task: None,
        unverified: Some(own.attempt.unwrap_or(1)),
        days: days(own.created_at, now),
        witnesses: 0,
    }
}

pub(in crate::flow) fn provenance(entry: &Stored, now: OffsetDateTime) -> prompt::Provenance {
    prompt::Provenance {
        id: memory_id(entry.kind, entry.id),
        task: entry.task.map(|id| TaskId(id).to_string()),
        unverified: None,
        days: days(entry.created_at, now),
        witnesses: entry.witnesses,
    }
}

pub(in crate::flow) fn learning(
    standing: prompt::Provenance,
    category: &str,
    title: &str,
    body: &str,
) -> prompt::Learning {
    let text = match (title.is_empty(), body.is_empty()) {
        (true, _) => body.to_owned(),
        (false, true) => title.to_owned(),
        (false, false) => format!("{title}\n{body}"),
    };
    prompt::Learning {
        provenance: standing,
        category: category.to_owned(),
        text,
    }
}

pub(in crate::flow) fn knowledge(standing: prompt::Provenance, title: &str, body: &str) -> prompt::Knowledge {
    prompt::Knowledge {
        provenance: standing,
        title: title.to_owned(),
        body: body.to_owned(),
    }
}

pub(in crate::flow) fn journal_entry(entry: &JournalEntry, iteration: Option<i32>) -> prompt::JournalEntry {
    prompt::JournalEntry {
        dispatch: entry.dispatch,
        iteration,
        step: None,
        outcome: journal_word(entry).to_owned(),
        task: entry.task.to_string(),
        title: entry.task_title.clone(),
        model: entry.model.clone(),
        files: entry.files_changed.clone(),
        notes: entry.journal.clone(),
        is_doubted: entry.is_doubted,
        feedback: entry.feedback.clone(),
        failure: None,
    }
}

/// The outcome as the journal names it (SPEC 3.3).
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

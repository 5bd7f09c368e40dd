//! What a session's report leaves for later iterations (SPEC 4, 6): failure reports, learnings, knowledge, notes. Collected
//! while a batch is judged, written in the same transaction.

use ralph_shared::sigil::{FailureFacts, Sigils, extract_failure};
use ralph_shared::wire::SessionReport;
use sqlx::PgConnection;

use crate::domain::states::Outcome;
use crate::store;
use crate::store::context::FailureReport;
use crate::store::memory::{Learned, Noted, Source};

/// Longest free text that is kept of one sigil. Characters.
const KEPT_CHARS: usize = 20_000;

/// What a batch leaves.
#[derive(Debug, Default)]
pub struct Captured {
    failures: Vec<(Source, FailureReport)>,
    learnings: Vec<Learned>,
    knowledge: Vec<Learned>,
    notes: Vec<Noted>,
}

impl Captured {
    /// Takes what a work session's text says.
    pub fn learn(&mut self, source: &Source, sigils: &Sigils) {
        self.learnings
            .extend(sigils.learnings.iter().map(|learning| Learned {
                source: source.clone(),
                head: learning.category.as_str().to_owned(),
                tags: learning.tags.clone(),
                body: bounded(&learning.body),
            }));
        self.knowledge
            .extend(sigils.knowledge.iter().map(|knowledge| Learned {
                source: source.clone(),
                head: knowledge.title.clone(),
                tags: knowledge.tags.clone(),
                body: bounded(&knowledge.body),
            }));
        self.notes.extend(sigils.notes.iter().map(|note| Noted {
            source: source.clone(),
            kind: note.kind.as_str().to_owned(),
            body: bounded(&note.text),
            rationale: note.rationale.as_deref().map(bounded),
        }));
    }

    /// Takes why a work session failed: the agent's own report, else what can be extracted (SPEC 4.3).
    pub fn failure(
        &mut self,
        source: &Source,
        outcome: Outcome,
        reason: Option<&str>,
        report: &SessionReport,
        text: &str,
        sigils: &Sigils,
    ) {
        if !matches!(outcome, Outcome::Failed | Outcome::Error | Outcome::NoSigil) {
            return;
        }
        let retry_suggestion = sigils.retry_suggestion.as_deref().map(bounded);
        let failure = match &sigils.failure_report {
            Some(own) => FailureReport {
                extracted: false,
                category: own.error_category.to_string(),
                what_tried: bounded(&own.what_tried),
                why_failed: bounded(&own.why_failed),
                relevant_files: (!own.relevant_files.is_empty()).then(|| own.relevant_files.join(", ")),
                error_output: own.stack_trace.clone(),
                retry_suggestion,
            },
            None => {
                let extracted = extract_failure(&FailureFacts {
                    failure_reason: sigils.failure_reason.as_deref().unwrap_or_default(),
                    session_end: if outcome == Outcome::Error {
                        reason.unwrap_or_default()
                    } else {
                        ""
                    },
                    tool_output: report.last_tool_error.as_deref().unwrap_or_default(),
                    stderr_tail: &report.stderr_tail,
                    text,
                    attempted: &report.attempted,
                    changed_files: &report.snapshot.files_changed,
                });
                FailureReport {
                    extracted: true,
                    category: "unknown".to_owned(),
                    what_tried: extracted.attempted,
                    why_failed: extracted.error,
                    relevant_files: (!extracted.files.is_empty()).then(|| extracted.files.join(", ")),
                    error_output: (!extracted.context.is_empty()).then_some(extracted.context),
                    retry_suggestion,
                }
            }
        };
        self.failures.push((source.clone(), failure));
    }

    /// Writes everything.
    pub async fn save(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        store::memory::insert_failure_reports(conn, &self.failures).await?;
        store::memory::insert_learnings(conn, &self.learnings).await?;
        store::memory::insert_knowledge(conn, &self.knowledge).await?;
        store::memory::insert_notes(conn, &self.notes).await
    }
}

/// The iteration's journal: what the agent wrote, or nothing, which still marks an iteration.
pub fn journal(sigils: &Sigils) -> String {
    sigils.journal.as_deref().map(bounded).unwrap_or_default()
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(KEPT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} [truncated]", &text[..end]),
    }
}

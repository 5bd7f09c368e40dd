//! Requests to the memory, and its answers.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::SectionTokens;
use super::library::{ImportLine, QueryLine};
use crate::view::{Fates, MemoryView, UseView};
use ralph_domain::recall::{Ended, Kind, Lift, Parts, Worth};

/// Entries to import.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportMemory {
    /// Identity of the repository whose memory it is.
    #[serde(default)]
    pub repo: String,
    /// The entries.
    pub items: Vec<ImportLine>,
    /// Whether further requests follow; if so, the words of all are counted together later.
    #[serde(default)]
    pub more: bool,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Imported {
    /// Number of new entries.
    pub imported: usize,
    /// Number of entries that existed already.
    pub known: usize,
}

/// Queries to one memory.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMemory {
    /// Identity of the repository whose memory it is.
    #[serde(default)]
    pub repo: String,
    /// The kind of entries to search.
    pub kind: Kind,
    /// Most entries of an answer.
    #[schema(minimum = 1, maximum = 50)]
    pub limit: usize,
    /// The queries.
    #[schema(max_items = 1000)]
    pub queries: Vec<QueryLine>,
}

/// The answer to one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Answered {
    /// Id of the query.
    pub query_id: String,
    /// Best first; empty when nothing is good enough.
    pub items: Vec<Hit>,
    /// The next best entries, each with the reason why it was left out.
    pub left_out: Vec<Hit>,
    /// How well the best entries answer the query.
    pub confidence: f64,
    /// Confidence below which this memory shows nothing.
    pub floor: f64,
}

/// An entry that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hit {
    pub id: String,
    pub external_id: Option<String>,
    pub kind: Kind,
    pub title: String,
    pub score: f64,
    pub parts: Parts,
    /// Why it was left out.
    pub reason: Option<String>,
}

/// An entry that a person adds.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMemory {
    #[serde(default)]
    pub repo: String,
    pub kind: Kind,
    #[serde(default)]
    pub category: Option<String>,
    #[serde(default)]
    pub title: String,
    pub body: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub paths: Vec<String>,
}

/// Entries to hide: the named ones, or ones that have long been unused.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneMemory {
    #[serde(default)]
    pub ids: Vec<String>,
    #[serde(default)]
    pub repo: Option<String>,
    /// Entries that are older than this and have not been shown for as long. Days.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 36500)]
    pub unused_days: Option<f64>,
    /// Only report the entries, without hiding them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Entries to restore.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreMemory {
    /// Ids of the entries.
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
}

/// Entries to delete.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeMemory {
    /// Ids of the entries.
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Purged {
    /// Number of deleted entries.
    pub entries: i64,
    /// Number of deleted prompts that had shown them.
    pub prompts: i64,
}

/// The result of hiding, restoring or revoking entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetractResult {
    /// Number of affected entries.
    pub entries: usize,
}

/// The result of a revocation, and how far the revoked entries had spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RevokedMemory {
    /// Number of revoked entries.
    pub entries: usize,
    /// Entries that later attempts copied from them; they stay in quarantine until a person restores them.
    pub quarantined: Vec<String>,
    /// Further entries of attempts whose prompts showed them; a person should check these.
    pub to_check: Vec<String>,
    /// Attempts whose journals quote them; prompts no longer show these journals.
    pub journals: Vec<String>,
}

/// The memory entries considered for an attempt's prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Explained {
    /// The session's dispatch.
    pub dispatch: String,
    /// Number of the attempt.
    pub attempt: i32,
    /// Whether the answer was held out of the prompt; `None` when there was nothing to query.
    pub held_out: Option<bool>,
    /// The sections of the prompt, the most important first; empty once the prompt is deleted.
    #[serde(default)]
    pub sections: Vec<SectionView>,
    /// Entries that were shown, then entries that were left out.
    pub items: Vec<UseView>,
}

/// State of the external embedding model, as this coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingsView {
    /// Name of the model.
    pub model: String,
    /// Entries of all repositories that have a vector of this model.
    pub made: i64,
    /// Entries that wait for a vector, counted up to 10,000.
    pub waiting: i64,
    /// Entries that the model refuses.
    pub refused: i64,
    /// Memories that were calibrated with queries about their own entries; the model's vectors help decide
    /// whether they have an answer.
    #[serde(default)]
    pub calibrated: i64,
    /// Why the model isn't called now; the memory works without it.
    pub trouble: Option<String>,
}

/// Measured benefit of the memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MemoryReport {
    /// Ended attempts whose prompts had memory of other tasks.
    pub with_memory: Ended,
    /// Ended attempts whose memory was held out.
    pub held_out: Ended,
    /// Difference between the landed shares of both groups, pooled over repositories and models; `None` while
    /// one group is empty.
    pub lift: Option<Lift>,
    /// Conclusion from the lift's interval.
    pub worth: Worth,
    /// Difference in iterations of a task: with memory minus without.
    pub iterations: Option<Lift>,
    /// Difference in cost of a task. US dollars.
    pub cost_usd: Option<Lift>,
    /// Difference in time of a task.
    pub seconds: Option<Lift>,
    /// First attempts still needed until the lift is known to ±10 points.
    pub needed: Option<i64>,
    /// Memories that are switched off because they were found to hurt, with the reasons.
    pub switched_off: Vec<SwitchedOffView>,
    /// The external model that helps to rank entries; `None` if there is none.
    pub embeddings: Option<EmbeddingsView>,
    /// Status counts of all entries.
    pub fates: Fates,
    /// The entries that helped most, and those that harmed most.
    pub items: Vec<MemoryView>,
}

/// A memory that was found to hurt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SwitchedOffView {
    pub repo: String,
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    pub reason: String,
}

/// The memory to switch on again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeMemory {
    /// The repository's identity.
    pub repo: String,
}

/// The prompt that the next attempt would get now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptNext {
    /// Number of the attempt.
    pub attempt: i32,
    /// The instructions that all prompts of the kind share.
    pub frame: String,
    /// The part for this attempt.
    pub body: String,
    /// Approximate number of tokens of each section, in order.
    #[serde(default)]
    pub tokens: Vec<SectionTokens>,
    /// The memory sections, the most important first.
    pub sections: Vec<SectionView>,
    /// Entries of other tasks' memory that would be shown, then entries that would not.
    pub items: Vec<UseView>,
}

/// A section of a prompt that holds memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SectionView {
    /// Heading of the section.
    pub name: String,
    /// `shown`, `empty`, or `no room`.
    pub status: String,
    /// Unicode characters that the section takes.
    pub chars: usize,
    /// Unicode characters that the section may take at most.
    pub allowed: usize,
}

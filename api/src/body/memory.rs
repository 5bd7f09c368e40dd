//! What the memory is asked and told.

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
    /// Whose memory: a repository's identity.
    #[serde(default)]
    pub repo: String,
    /// What goes in.
    pub items: Vec<ImportLine>,
    /// Whether further requests follow: then their words are counted later, all together.
    #[serde(default)]
    pub more: bool,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Imported {
    /// New entries.
    pub imported: usize,
    /// Those that were there already.
    pub known: usize,
}

/// Questions, all to the same memory.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMemory {
    /// Whose memory: a repository's identity.
    #[serde(default)]
    pub repo: String,
    /// Which part of it.
    pub kind: Kind,
    /// Entries of an answer, at most.
    #[schema(minimum = 1, maximum = 50)]
    pub limit: usize,
    /// What is asked.
    #[schema(max_items = 1000)]
    pub queries: Vec<QueryLine>,
}

/// What one question brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Answered {
    /// The question.
    pub query_id: String,
    /// Best first; empty when nothing is good enough.
    pub items: Vec<Hit>,
    /// The next ones, each with the reason.
    pub left_out: Vec<Hit>,
    /// How well the best entries answer.
    pub confidence: f64,
    /// The confidence below which this memory shows nothing.
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
    /// Why it is left out.
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

/// Which entries to hide: named ones, or those that nobody used for long.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneMemory {
    #[serde(default)]
    pub ids: Vec<String>,
    #[serde(default)]
    pub repo: Option<String>,
    /// Older than this, and not shown for as long.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 36500)]
    pub unused_days: Option<f64>,
    /// Only say which.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which entries to bring back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreMemory {
    /// Their ids.
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
}

/// Which entries to delete.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeMemory {
    /// Their ids.
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Purged {
    /// Entries.
    pub entries: i64,
    /// Prompts that had shown them.
    pub prompts: i64,
}

/// Entries that were hidden, restored or taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetractResult {
    /// How many.
    pub entries: usize,
}

/// What was revoked, and how far it had spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RevokedMemory {
    /// Entries that were taken back.
    pub entries: usize,
    /// Entries that later attempts copied from them: in quarantine now, until a person restores them.
    pub quarantined: Vec<String>,
    /// Further entries of attempts that were shown them: a person should look at these.
    pub to_check: Vec<String>,
    /// Attempts whose journals quote them, and are shown to nobody any more.
    pub journals: Vec<String>,
}

/// What an attempt's prompt was chosen from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Explained {
    /// The session.
    pub dispatch: String,
    /// Its attempt.
    pub attempt: i32,
    /// Whether the answer was held out; `None` when there was nothing to ask.
    pub held_out: Option<bool>,
    /// What became of each section of its prompt, the most important first; none once the prompt is no longer kept.
    #[serde(default)]
    pub sections: Vec<SectionView>,
    /// What was shown, then what was left out.
    pub items: Vec<UseView>,
}

/// An outside model, as this coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingsView {
    /// Its name.
    pub model: String,
    /// Entries that got a vector since it is the model, of all repositories.
    pub made: i64,
    /// Entries that wait for one, up to 10,000.
    pub waiting: i64,
    /// Entries that it doesn't take.
    pub refused: i64,
    /// Memories that were asked about their own entries with it: whether they have an answer rests on its vectors as well.
    #[serde(default)]
    pub calibrated: i64,
    /// Why it isn't asked now; everything goes on without it.
    pub trouble: Option<String>,
}

/// What memory is worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MemoryReport {
    /// Attempts with memory of other tasks that ended.
    pub with_memory: Ended,
    /// Those that were held out.
    pub held_out: Ended,
    /// The difference of shares that landed, pooled over repositories and models; `None` while one side has none.
    pub lift: Option<Lift>,
    /// What the lift's interval says.
    pub worth: Worth,
    /// The same of a task's iterations, cost in USD and time in seconds: with memory, less without.
    pub iterations: Option<Lift>,
    pub cost_usd: Option<Lift>,
    pub seconds: Option<Lift>,
    /// First attempts that are needed until the lift is known to ±10 points.
    pub needed: Option<i64>,
    /// Memories that are switched off, since they were found to hurt, and why.
    pub switched_off: Vec<SwitchedOffView>,
    /// The outside model that helps to order entries; `None` where there is none.
    pub embeddings: Option<EmbeddingsView>,
    /// What became of all that was learned.
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

/// Whose memory to resume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeMemory {
    /// The repository's identity.
    pub repo: String,
}

/// The prompt that the next attempt would get now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptNext {
    /// The attempt.
    pub attempt: i32,
    /// The instructions that all prompts of the kind share.
    pub frame: String,
    /// What would be said to this one.
    pub body: String,
    /// About how many tokens each section takes, in order.
    #[serde(default)]
    pub tokens: Vec<SectionTokens>,
    /// What became of each section, the most important first.
    pub sections: Vec<SectionView>,
    /// What would be shown of other tasks' memory, then what not.
    pub items: Vec<UseView>,
}

/// A section of a prompt that holds memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SectionView {
    /// Its heading.
    pub name: String,
    /// `shown`, `empty`, or `no room`.
    pub status: String,
    /// Unicode characters that it takes.
    pub chars: usize,
    /// Unicode characters that it could have taken.
    pub allowed: usize,
}

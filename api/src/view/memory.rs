//! Remembered entries as people look at them, with where they come from and what became of showing them.

use std::collections::BTreeMap;

use ralph_domain::recall::Kind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A learning or a knowledge entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MemoryView {
    /// `l-…` or `k-…`.
    pub id: String,
    pub kind: Kind,
    pub repo: String,
    /// `live`, `quarantine`, `stale` (none of its files is there any more), `pruned` or `superseded`.
    pub status: String,
    /// Why it is hidden, where no person hid it: by upkeep as `unused`, `full` or `stale`, with its attempt (`revoked`), or with
    /// what had replaced it (`purged`).
    #[serde(default)]
    pub pruned_because: Option<String>,
    /// Of a learning.
    pub category: Option<String>,
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub paths: Vec<String>,
    pub feature: Option<String>,
    /// By verified outcomes, 0.2 to 3.
    pub weight: f32,
    /// `attempt`, `manual`, `import` or `distilled`.
    pub origin: String,
    /// The name that an import gave it.
    pub external_id: Option<String>,
    pub task: Option<String>,
    pub attempt: Option<i32>,
    pub dispatch: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// Attempts that were shown it, and how they ended.
    pub shown: i64,
    pub landed: i64,
    pub failed: i64,
    pub superseded_by: Option<String>,
    /// Further attempts that learned the same.
    #[serde(default)]
    pub witnesses: i64,
    /// The revoked entry that it repeats; it is in quarantine until a person restores it.
    #[serde(default)]
    pub doubted_by: Option<String>,
    /// Where it comes from and what came of it; only a single entry tells this.
    #[serde(default)]
    pub family: Vec<Relative>,
    /// When it was last shown to an attempt that has ended since.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub last_used_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// An entry that another one comes from, or that came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryRelative)]
pub struct Relative {
    /// `made from`, `merged into`, `replaced`, `confirmed by` (a witness), `repeated by` (a copy in doubt), `written after` (its
    /// attempt was shown that one), or `read by the author of` that one.
    pub relation: String,
    pub id: String,
    pub status: String,
    pub title: String,
}

/// What was chosen for an attempt's prompt, or why not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UseView {
    pub id: String,
    pub kind: Kind,
    pub score: f32,
    pub shown: bool,
    /// Why it was left out, or what became of it since.
    pub reason: Option<String>,
    pub title: String,
}

/// What became of all that was learned, and of the sessions that merged learnings.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryFates)]
pub struct Fates {
    /// Entries by status; those that no person hid by reason, as `pruned_unused`, `pruned_full`, `pruned_stale`, `pruned_revoked`,
    /// `pruned_purged`.
    pub entries: BTreeMap<String, i64>,
    /// Sessions that merged, or are to merge.
    pub distillations: i64,
    /// Learnings that they merged, and those that took their place.
    pub merged: i64,
    pub made: i64,
}

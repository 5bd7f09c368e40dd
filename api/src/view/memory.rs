//! Memory entries for people, with their origins and the outcomes of attempts that saw them.

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
    /// `live`, `quarantine`, `stale` (none of its files exists any more), `pruned` or `superseded`.
    pub status: String,
    /// Why it is hidden, if no person hid it: by upkeep as `unused`, `full` or `stale`, together with its
    /// attempt (`revoked`), or with the entry that had replaced it (`purged`).
    #[serde(default)]
    pub pruned_because: Option<String>,
    /// Category of a learning.
    pub category: Option<String>,
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub paths: Vec<String>,
    pub feature: Option<String>,
    /// Weight by verified outcomes, 0.2 to 3.
    pub weight: f32,
    /// `attempt`, `manual`, `import` or `distilled`.
    pub origin: String,
    /// The entry's name in an import.
    pub external_id: Option<String>,
    pub task: Option<String>,
    pub attempt: Option<i32>,
    pub dispatch: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// Number of attempts that were shown it.
    pub shown: i64,
    pub landed: i64,
    pub failed: i64,
    pub superseded_by: Option<String>,
    /// Number of further attempts that learned the same.
    #[serde(default)]
    pub witnesses: i64,
    /// The revoked entry that it repeats; it stays in quarantine until a person restores it.
    #[serde(default)]
    pub doubted_by: Option<String>,
    /// Entries that it comes from, and entries derived from it; set only when a single entry is requested.
    #[serde(default)]
    pub family: Vec<Relative>,
    /// Last time that it was shown to an attempt that has ended since.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub last_used_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// An entry that another one comes from, or that is derived from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryRelative)]
pub struct Relative {
    /// `made from`, `merged into`, `replaced`, `confirmed by` (a witness), `repeated by` (a copy in doubt),
    /// `written after` (its attempt was shown the other entry), or `read by the author of` the other entry.
    pub relation: String,
    pub id: String,
    pub status: String,
    pub title: String,
}

/// An entry that was considered for an attempt's prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UseView {
    pub id: String,
    pub kind: Kind,
    pub score: f32,
    pub shown: bool,
    /// Why it was left out, or what happened to it since.
    pub reason: Option<String>,
    pub title: String,
}

/// Numbers of entries by status, and of merged learnings.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryFates)]
pub struct Fates {
    /// Entries by status. Entries that no person hid count by reason, as `pruned_unused`, `pruned_full`,
    /// `pruned_stale`, `pruned_revoked`, `pruned_purged`.
    pub entries: BTreeMap<String, i64>,
    /// Sessions that merged or will merge learnings.
    pub distillations: i64,
    /// Learnings that were merged into others.
    pub merged: i64,
    /// Learnings that replaced them.
    pub made: i64,
}

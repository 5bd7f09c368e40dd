//! Index keys: a word in the scope of a repository and a kind of entry. So a look-up costs the same however
//! large the memories of other repositories are, and never finds their entries.

use super::words::Word;

/// The kind of a memory entry.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
#[schema(as = MemoryKind)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "memory_kind", rename_all = "snake_case")
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Kind {
    /// Advice for similar tasks.
    Learning,
    /// Facts about the project.
    Knowledge,
    /// Notes on an iteration of an earlier run, with its failure report.
    Journal,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Learning, Self::Knowledge, Self::Journal];
}

/// The part of a key besides its scope.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Word = 1,
    Name = 2,
    File = 3,
}

/// A repository's entries of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope(u64);

/// FNV-1a, 64 bits.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Scope {
    /// The scope of a repository's entries of one kind.
    pub fn new(repo_id: &str, kind: Kind) -> Self {
        let hash = fnv(0xcbf2_9ce4_8422_2325, repo_id.as_bytes());
        Self(fnv(hash, &[0, kind as u8]))
    }

    pub(super) fn key(self, part: Part, word: Word) -> i64 {
        let hash = fnv(fnv(self.0, &[part as u8]), &word.to_le_bytes());
        i64::from_le_bytes(hash.to_le_bytes())
    }
}

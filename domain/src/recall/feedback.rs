//! Uses the common files of the first hits: entries about the same files help as well, whatever their words.

use std::collections::{BTreeMap, HashMap};

use time::OffsetDateTime;

use super::bm25::{ALL_FIELDS, Stats, Terms, bm25};
use super::doc::{Analysed, Doc};
use super::key::{Part, Scope};
use super::query::{Lookup, Query};
use super::words::Word;

/// Number of first hits that are examined.
const HITS: usize = 10;
/// A file in more than this share of all entries is ignored, unless at most [`FEW`] entries have it.
const COMMON: f64 = 0.1;
const FEW: i64 = 5;
/// Maximum number of files that are looked up for further candidates.
const LOOKUP_FILES: usize = 30;
/// Age at which a first hit has lost half of its freshness.
const HALF_LIFE_DAYS: f64 = 450.0;
/// Largest effect of freshness on a first hit.
const FRESHNESS: f64 = 0.3;

/// The files and folders of the first hits.
#[derive(Debug, Clone, Default)]
pub struct FileWeights {
    pub(super) files: BTreeMap<i64, f64>,
    pub(super) folders: BTreeMap<Word, f64>,
    /// The contribution of each first hit, so that it does not confirm itself.
    pub(super) own: HashMap<uuid::Uuid, f64>,
}

impl FileWeights {
    /// The files that bring further candidates.
    pub fn lookups(&self) -> Vec<Lookup> {
        let mut files: Vec<Lookup> = self
            .files
            .iter()
            .map(|(key, weight)| Lookup {
                key: *key,
                weight: *weight,
            })
            .collect();
        files.sort_by(|one, other| other.weight.total_cmp(&one.weight).then(one.key.cmp(&other.key)));
        files.truncate(LOOKUP_FILES);
        files
    }

    /// An entry's share of the first hits' files, without its own contribution.
    pub(super) fn shared_files(&self, doc: &Doc) -> f64 {
        let size = (doc.words.files.len().max(1) as f64).sqrt();
        let sum: f64 = doc
            .words
            .files
            .iter()
            .filter_map(|file| self.files.get(file))
            .sum();
        let own = self.own.get(&doc.entry).copied().unwrap_or(0.0);
        (sum / size - own).max(0.0)
    }

    /// The same for folders, with its own contribution.
    pub(super) fn shared_folders(&self, words: &Analysed) -> f64 {
        let size = (words.folders.len().max(1) as f64).sqrt();
        let sum: f64 = words
            .folders
            .iter()
            .filter_map(|folder| self.folders.get(folder))
            .sum();
        sum / size
    }
}

/// An entry's freshness at `now`: 1 when new, 1/2 after `half_life_days`.
pub(super) fn freshness(now: OffsetDateTime, created_at: OffsetDateTime, half_life_days: f64) -> f64 {
    let days = (now - created_at).as_seconds_f64().max(0.0) / 86_400.0;
    (-days / half_life_days).exp2()
}

/// The rarity of each asked word.
pub(super) fn rarities(query: &Query, scope: Scope, stats: &Stats) -> HashMap<Word, f64> {
    query
        .weights
        .keys()
        .map(|word| (*word, stats.rarity(stats.entries_with(scope, Part::Word, *word))))
        .collect()
}

/// The best candidates by words, and slightly by freshness.
#[derive(Debug, Clone)]
pub struct FirstHits<'a> {
    /// The score with freshness, the score without, and the entry.
    hits: Vec<(f64, f64, &'a Doc)>,
    /// The best score without freshness.
    best: f64,
}

pub fn first_hits<'a>(
    query: &Query,
    scope: Scope,
    stats: &Stats,
    docs: &[&'a Doc],
    now: OffsetDateTime,
) -> FirstHits<'a> {
    let terms = Terms::new(&query.weights, &rarities(query, scope, stats));
    let mut hits: Vec<(f64, f64, &Doc)> = docs
        .iter()
        .map(|doc| {
            let score = bm25(&terms, stats, &doc.words, &ALL_FIELDS);
            let fresh = 1.0 - FRESHNESS + FRESHNESS * freshness(now, doc.created_at, HALF_LIFE_DAYS);
            (score * fresh, score, *doc)
        })
        .filter(|(_, score, _)| *score > 0.0)
        .collect();
    hits.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.2.entry.cmp(&other.2.entry)));
    let best = hits.iter().map(|(_, score, _)| *score).fold(0.0, f64::max);
    hits.truncate(HITS);
    FirstHits { hits, best }
}

impl FirstHits<'_> {
    /// The keys of their files.
    pub fn files(&self) -> impl Iterator<Item = i64> {
        self.hits
            .iter()
            .flat_map(|(_, _, doc)| doc.words.files.iter().copied())
    }

    /// Weighs their common files. `entries` has the number of entries of each file; a missing file has one.
    pub fn weigh(&self, stats: &Stats, entries: &HashMap<i64, i64>) -> FileWeights {
        let mut weights = FileWeights::default();
        let rarest = stats.rarity(1);
        for (fresh, score, doc) in &self.hits {
            let size = doc.words.files.len().max(1) as f64;
            let mut own = 0.0;
            for file in &doc.words.files {
                let entries = entries.get(file).copied().unwrap_or(0).max(1);
                if entries > FEW.max((stats.entries as f64 * COMMON) as i64) {
                    continue;
                }
                let weight = fresh / self.best * stats.rarity(entries) / rarest;
                *weights.files.entry(*file).or_insert(0.0) += weight / size.sqrt();
                own += weight / size;
            }
            let folders = (doc.words.folders.len().max(1) as f64).sqrt();
            for folder in &doc.words.folders {
                *weights.folders.entry(*folder).or_insert(0.0) += score / self.best / folders;
            }
            weights.own.insert(doc.entry, own);
        }
        weights
    }
}

//! Several views of each candidate, fused to one score; and how much the answer as a whole is to be trusted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use time::OffsetDateTime;
use uuid::Uuid;

use super::bm25::{ALL_FIELDS, PLACE_FIELDS, Stats, Terms, bm25};
use super::doc::Doc;
use super::feedback::{FileWeights, freshness, rarities};
use super::key::{Part, Scope};
use super::query::{Query, counts};
use super::words::Word;

/// Hits on which the confidence in an answer rests.
const LOOKED_AT: usize = 5;

/// What speaks for a candidate. All but freshness and breadth are relative to the best candidate: 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Parts {
    /// Its words, by field.
    pub words: f64,
    /// The title's words in its paths and tags.
    pub place: f64,
    /// Pairs of words that stand together in both.
    pub pairs: f64,
    /// Names of several words, and file names.
    pub names: f64,
    /// Files of the first hits.
    pub files: f64,
    /// Folders of the first hits.
    pub folders: f64,
    /// 1 new, 1/2 after 15 months.
    pub freshness: f64,
    /// Logarithm of its number of files: broad changes touch what others touch.
    pub breadth: f64,
    /// How near an outside model's vector of it is to the question's; 0 without one.
    #[serde(default)]
    pub meaning: f64,
}

impl Parts {
    fn fused(&self) -> f64 {
        self.words
            + 0.3 * self.place
            + 0.25 * self.pairs
            + 0.25 * self.names
            + 0.3 * self.files
            + 0.15 * self.folders
            + 0.4 * self.freshness
            + 0.08 * self.breadth
    }
}

/// A ranked candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The entry.
    pub entry: Uuid,
    /// The fused score; about 0 to 2.5, and 0.5 more with vectors.
    pub score: f64,
    /// What it is made of.
    pub parts: Parts,
}

/// A ranked answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How well the best hits answer: to be compared with a [`super::Floor`].
    pub confidence: f64,
}

/// Ranks candidates, each once.
pub fn rank(
    query: &Query,
    scope: Scope,
    stats: &Stats,
    docs: &[&Doc],
    files: &FileWeights,
    now: OffsetDateTime,
) -> Ranking {
    let rarity = rarities(query, scope, stats);
    let terms = Terms::new(&query.weights, &rarity);
    let words: Vec<f64> = docs
        .iter()
        .map(|doc| bm25(&terms, stats, &doc.words, &ALL_FIELDS))
        .collect();
    let best = words.iter().copied().fold(0.0, f64::max);
    if best <= 0.0 {
        return Ranking::default();
    }
    let title: BTreeMap<Word, f64> = counts(&query.title)
        .into_iter()
        .map(|(word, count)| (word, count as f64))
        .collect();
    let rare = |word: &Word| rarity.get(word).copied().unwrap_or(0.0);
    let pairs: BTreeSet<(Word, Word)> = query.pairs().collect();
    let names: HashMap<Word, f64> = query
        .names
        .iter()
        .map(|name| (*name, stats.rarity(stats.entries_with(scope, Part::Name, *name))))
        .collect();
    let in_pairs = |doc: &Doc| -> f64 {
        let shared: BTreeSet<(Word, Word)> = doc.words.pairs().filter(|pair| pairs.contains(pair)).collect();
        shared.iter().map(|(one, other)| rare(one) + rare(other)).sum()
    };
    let in_names = |doc: &Doc| -> f64 {
        let shared: BTreeSet<Word> = doc
            .words
            .all_names()
            .filter(|name| names.contains_key(name))
            .collect();
        shared.iter().filter_map(|name| names.get(name)).sum()
    };
    let raw = |of: &dyn Fn(&Doc) -> f64| -> Vec<f64> { docs.iter().map(|doc| of(doc)).collect() };
    let title_terms = Terms::new(&title, &rarity);
    let place = raw(&|doc| bm25(&title_terms, stats, &doc.words, &PLACE_FIELDS));
    let paired = raw(&in_pairs);
    let named = raw(&in_names);
    let filed = raw(&|doc| files.shared_files(doc));
    let foldered = raw(&|doc| files.shared_folders(&doc.words));
    let relative = |values: &[f64], at: usize| {
        let most = values.iter().copied().fold(0.0, f64::max);
        if most > 0.0 { values[at] / most } else { 0.0 }
    };
    let mut hits: Vec<(usize, Hit)> = docs
        .iter()
        .enumerate()
        .map(|(at, doc)| {
            let parts = Parts {
                words: words[at] / best,
                place: relative(&place, at),
                pairs: relative(&paired, at),
                names: relative(&named, at),
                files: relative(&filed, at),
                folders: relative(&foldered, at),
                freshness: freshness(now, doc.created_at),
                breadth: (doc.words.files.len() as f64).ln_1p(),
                meaning: 0.0,
            };
            let score = parts.fused();
            (
                at,
                Hit {
                    entry: doc.entry,
                    score,
                    parts,
                },
            )
        })
        .collect();
    hits.sort_by(|(_, one), (_, other)| {
        other
            .score
            .total_cmp(&one.score)
            .then(other.entry.cmp(&one.entry))
    });
    let top: Vec<usize> = hits.iter().take(LOOKED_AT).map(|(at, _)| *at).collect();
    let evidence = Evidence {
        best,
        coverage: mean(top.iter().map(|at| covered(query, &rarity, docs[*at]))),
        title: top
            .iter()
            .map(|at| title_covered(&title, &rarity, docs[*at]))
            .fold(0.0, f64::max),
        unknown: unknown(query, scope, stats, &rarity),
        shared: top.iter().map(|at| filed[*at]).sum(),
        pairs: top.first().map_or(0.0, |at| paired[*at]),
        names: top.iter().map(|at| named[*at]).fold(0.0, f64::max),
        rarest: stats.rarity(0),
    };
    Ranking {
        hits: hits.into_iter().map(|(_, hit)| hit).collect(),
        confidence: evidence.confidence(),
    }
}

/// What an answer rests on.
#[derive(Debug, Clone, Copy)]
struct Evidence {
    /// The best candidate's score by words.
    best: f64,
    /// Share of the question's weight that the best hits cover, their mean.
    coverage: f64,
    /// Share of the title that one of the best hits covers.
    title: f64,
    /// Share of the question's weight that the memory has never seen.
    unknown: f64,
    /// Files that the best hits share.
    shared: f64,
    /// Pairs of words of the best hit.
    pairs: f64,
    /// Names that the best hits share with the question.
    names: f64,
    /// Rarity of a word that is nowhere.
    rarest: f64,
}

impl Evidence {
    /// Weights by logistic regression over histories that were each left out once. Only differences count: what is
    /// enough depends on the memory, see [`super::Floor`].
    fn confidence(&self) -> f64 {
        0.9 * self.best.max(1e-9).ln()
            + 2.3 * self.coverage
            + 0.2 * self.shared
            + 0.65 * self.pairs / self.rarest
            + 2.2 * self.title
            - 2.0 * self.unknown
            + 0.65 * self.names / self.rarest
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn covered(query: &Query, rarity: &HashMap<Word, f64>, doc: &Doc) -> f64 {
    let has: BTreeSet<Word> = doc.words.all_words().collect();
    let weight = |word: &Word, weight: &f64| weight * rarity.get(word).copied().unwrap_or(0.0);
    let all: f64 = query.weights.iter().map(|(word, w)| weight(word, w)).sum();
    let covered: f64 = query
        .weights
        .iter()
        .filter(|(word, _)| has.contains(word))
        .map(|(word, w)| weight(word, w))
        .sum();
    if all > 0.0 { covered / all } else { 0.0 }
}

fn title_covered(title: &BTreeMap<Word, f64>, rarity: &HashMap<Word, f64>, doc: &Doc) -> f64 {
    let has: BTreeSet<Word> = doc.words.all_words().collect();
    let rare = |word: &Word| rarity.get(word).copied().unwrap_or(0.0);
    let all: f64 = title.keys().map(rare).sum();
    let covered: f64 = title.keys().filter(|word| has.contains(word)).map(rare).sum();
    if all > 0.0 { covered / all } else { 0.0 }
}

fn unknown(query: &Query, scope: Scope, stats: &Stats, rarity: &HashMap<Word, f64>) -> f64 {
    let weight = |word: &Word, weight: &f64| weight * rarity.get(word).copied().unwrap_or(0.0);
    let all: f64 = query.weights.iter().map(|(word, w)| weight(word, w)).sum();
    let unknown: f64 = query
        .weights
        .iter()
        .filter(|(word, _)| stats.entries_with(scope, Part::Word, **word) == 0)
        .map(|(word, w)| weight(word, w))
        .sum();
    if all > 0.0 { unknown / all } else { 0.0 }
}

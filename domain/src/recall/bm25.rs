//! Rarity of words in a memory, and a fielded BM25.

use std::collections::{BTreeMap, HashMap};

use super::doc::Analysed;
use super::key::{Part, Scope};
use super::words::Word;

/// Smallest assumed size of a memory: in a few entries every word looks rare.
const LEAST_ENTRIES: f64 = 200.0;
/// Saturation of repeated words.
pub(super) const K1: f64 = 1.2;

/// Statistics of a whole memory: sizes, and the number of entries with each queried word.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    pub entries: i64,
    /// Words in all titles, bodies, paths and tags.
    pub words: [i64; 4],
    /// Entries by key; a missing key is in no counted entry.
    pub frequency: HashMap<i64, i64>,
}

impl Stats {
    pub(super) fn entries_with(&self, scope: Scope, part: Part, word: Word) -> i64 {
        self.frequency.get(&scope.key(part, word)).copied().unwrap_or(0)
    }

    /// The weight of a word that `entries` entries contain.
    pub(super) fn rarity(&self, entries: i64) -> f64 {
        let (all, with) = ((self.entries as f64).max(LEAST_ENTRIES), entries as f64);
        (1.0 + (all - with + 0.5).max(0.5) / (with + 0.5)).ln()
    }

    fn mean(&self, field: Field) -> f64 {
        (self.words[field as usize] as f64 / self.entries.max(1) as f64).max(1.0)
    }
}

/// The fields of an entry, as [`Stats::words`] counts them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Title,
    Body,
    Place,
    Tags,
}

/// The weight of a field, and the effect of its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weighing {
    pub field: Field,
    pub weight: f64,
    pub by_length: f64,
}

const fn weighing(field: Field, weight: f64, by_length: f64) -> Weighing {
    Weighing {
        field,
        weight,
        by_length,
    }
}

/// All fields: a title weighs most, a body is long.
pub(super) const ALL_FIELDS: [Weighing; 4] = [
    weighing(Field::Title, 2.0, 0.3),
    weighing(Field::Body, 0.7, 0.75),
    weighing(Field::Place, 1.2, 0.6),
    weighing(Field::Tags, 1.2, 0.3),
];
/// The field for the place of a change.
pub(super) const PLACE_FIELDS: [Weighing; 1] = [weighing(Field::Place, 1.0, 0.6)];

/// Weighted words with a fast look-up for each word of an entry. Most words of an entry are not among them.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// Sorted.
    words: Vec<Word>,
    /// Weight times rarity of each word.
    pub(super) gains: Vec<f64>,
    /// One bit for the last bits of each word; a word without its bit is not looked up.
    seen: [u64; 16],
}

impl Terms {
    /// Takes the weighted words whose rarity is known.
    pub(super) fn new(weights: &BTreeMap<Word, f64>, rarity: &HashMap<Word, f64>) -> Self {
        let known = weights
            .iter()
            .filter_map(|(word, weight)| Some((*word, weight * rarity.get(word)?)));
        let (words, gains): (Vec<Word>, Vec<f64>) = known.unzip();
        let mut seen = [0; 16];
        for word in &words {
            let (at, bit) = Self::bit(*word);
            seen[at] |= bit;
        }
        Self { words, gains, seen }
    }

    fn bit(word: Word) -> (usize, u64) {
        let last = word % 1024;
        ((last / 64) as usize, 1 << (last % 64))
    }

    pub(super) fn find(&self, word: Word) -> Option<usize> {
        let (at, bit) = Self::bit(word);
        if self.seen[at] & bit == 0 {
            return None;
        }
        self.words.binary_search(&word).ok()
    }
}

/// The score of an entry for weighted words.
pub(super) fn bm25(terms: &Terms, stats: &Stats, doc: &Analysed, fields: &[Weighing]) -> f64 {
    let mut found = vec![0.0; terms.words.len()];
    for Weighing {
        field,
        weight,
        by_length,
    } in fields
    {
        let words = match field {
            Field::Title => &doc.title,
            Field::Body => &doc.body,
            Field::Place => &doc.place,
            Field::Tags => &doc.tags,
        };
        let length = 1.0 - by_length + by_length * words.len() as f64 / stats.mean(*field);
        for at in words.iter().filter_map(|word| terms.find(*word)) {
            found[at] += weight / length;
        }
    }
    // In a fixed order: sums of floats depend on it, and the same question must have the same answer.
    let found = terms.gains.iter().zip(found).filter(|(_, times)| *times > 0.0);
    found
        .map(|(gain, times)| gain * times * (K1 + 1.0) / (K1 + times))
        .sum()
}

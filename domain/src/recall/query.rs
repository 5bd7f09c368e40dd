//! Turns a task into a question to the memory.

use std::collections::BTreeMap;

use super::bm25::Stats;
use super::doc::{Analysed, pairs};
use super::key::{Part, Scope};
use super::words::{Word, names, words};

/// Weight of a word of the title relative to the description.
const TITLE_WEIGHT: f64 = 2.0;
/// Weight of a word of the task's context.
const CONTEXT_WEIGHT: f64 = 0.5;
/// Counted repetitions of a word, in the title and elsewhere.
const TITLE_REPEATS: usize = 2;
const TEXT_REPEATS: usize = 3;
/// Counted words of the description.
const TEXT_WORDS: usize = 120;
/// Counted words of the context.
const CONTEXT_WORDS: usize = 80;
/// Longest area, the part of a title before its colon. Characters.
const AREA_CHARS: usize = 40;
/// Weight of the task's names among wanted keys.
const NAME_WEIGHT: f64 = 1.0;

/// Index entries that one question may read: rare words first, until the sum of their entries.
pub const POSTINGS: i64 = 2_000;

/// A question to the memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Words of the title, in order.
    pub(super) title: Vec<Word>,
    /// Words of the description, in order.
    pub(super) text: Vec<Word>,
    pub(super) weights: BTreeMap<Word, f64>,
    /// Names, and the single words of the title, which may be files' names.
    pub(super) names: Vec<Word>,
    /// Words of the title's area.
    pub(super) area: Vec<Word>,
}

/// A key to look up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lookup {
    pub key: i64,
    /// Gain of an entry with this key in the choice of candidates.
    pub weight: f64,
}

impl Query {
    /// The question of a task: its title, its description, and its context (parent, feature, paths, last
    /// failures).
    pub fn new(title: &str, description: &str, around: &str) -> Self {
        let text = words(description).into_iter().take(TEXT_WORDS).collect();
        let names = names(&format!("{title}\n{description}"));
        Self {
            area: area(title),
            ..Self::of_words(words(title), text, &words(around), names)
        }
    }

    /// The question that an entry would be if it were a task, for calibration.
    pub fn of_entry(entry: &Analysed) -> Self {
        let text = entry.body.iter().copied().take(TEXT_WORDS).collect();
        Self::of_words(entry.title.clone(), text, &[], entry.names.clone())
    }

    fn of_words(title: Vec<Word>, text: Vec<Word>, around: &[Word], mut names: Vec<Word>) -> Self {
        // A single word of the title may be a file's name.
        names.extend(&title);
        names.sort_unstable();
        names.dedup();
        let mut weights = BTreeMap::new();
        for (word, count) in counts(&title) {
            *weights.entry(word).or_insert(0.0) += TITLE_WEIGHT * count.min(TITLE_REPEATS) as f64;
        }
        for (word, count) in counts(&text) {
            *weights.entry(word).or_insert(0.0) += count.min(TEXT_REPEATS) as f64;
        }
        for word in around.iter().take(CONTEXT_WORDS) {
            weights.entry(*word).or_insert(CONTEXT_WEIGHT);
        }
        Self {
            title,
            text,
            weights,
            names,
            area: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Every key whose frequency is needed.
    pub fn lookups(&self, scope: Scope) -> impl Iterator<Item = i64> {
        let words = self.weights.keys().map(move |word| scope.key(Part::Word, *word));
        let names = self.names.iter().map(move |name| scope.key(Part::Name, *name));
        words.chain(names)
    }

    /// The keys that bring candidates: rare and heavy ones first, until the sum of their entries is
    /// [`POSTINGS`].
    pub fn candidate_lookups(&self, scope: Scope, stats: &Stats) -> Vec<Lookup> {
        let words = self.weights.iter().map(|(word, weight)| {
            let entries = stats.entries_with(scope, Part::Word, *word);
            (
                entries,
                scope.key(Part::Word, *word),
                weight * stats.rarity(entries),
            )
        });
        let names = self.names.iter().map(|name| {
            let entries = stats.entries_with(scope, Part::Name, *name);
            (
                entries,
                scope.key(Part::Name, *name),
                NAME_WEIGHT * stats.rarity(entries),
            )
        });
        let mut keys: Vec<(i64, i64, f64)> = words.chain(names).collect();
        keys.sort_by(|one, other| {
            let cost = |key: &(i64, i64, f64)| key.0 as f64 / key.2.max(1e-9);
            cost(one).total_cmp(&cost(other)).then(one.1.cmp(&other.1))
        });
        let mut left = POSTINGS;
        keys.into_iter()
            .take_while(|(entries, ..)| {
                let first = left == POSTINGS;
                left -= (*entries).max(1);
                left >= 0 || first
            })
            .map(|(_, key, weight)| Lookup { key, weight })
            .collect()
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (Word, Word)> {
        [&self.title, &self.text]
            .into_iter()
            .flat_map(|words| pairs(words))
    }
}

/// The words of a title's area, each once: `cli: …`, `fix(parser): …`, `[docs] …`.
fn area(title: &str) -> Vec<Word> {
    let title = title.trim();
    let cut = match title.strip_prefix('[') {
        Some(rest) => rest.split_once(']'),
        None => title.split_once(": "),
    };
    let area = cut.map_or("", |(area, _)| area);
    if area.chars().count() > AREA_CHARS {
        return Vec::new();
    }
    counts(&words(area)).into_keys().collect()
}

/// Words with their numbers of occurrences.
pub(super) fn counts(words: &[Word]) -> BTreeMap<Word, usize> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(*word).or_insert(0) += 1;
    }
    counts
}

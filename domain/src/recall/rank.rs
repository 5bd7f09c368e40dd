//! Fuses several views of each candidate to one score, and computes the confidence in the whole answer.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use time::OffsetDateTime;
use uuid::Uuid;

use super::bm25::{ALL_FIELDS, K1, PLACE_FIELDS, Stats, Terms, bm25};
use super::doc::Doc;
use super::feedback::{FileWeights, freshness, rarities};
use super::key::{Part, Scope};
use super::query::{Query, counts};
use super::words::Word;

/// Hits that determine the confidence in an answer.
pub(super) const RESTS_ON: usize = 5;
/// Weight of a single-word name relative to a longer one, since it also counts as a word.
const SINGLE_NAME: f64 = 0.5;
/// Age at which a candidate has lost half of its freshness.
const HALF_LIFE_DAYS: f64 = 1200.0;
/// Effect of the length of texts on a file's score.
const BY_LENGTH: f64 = 0.75;

type Pair = (Word, Word);

/// Parts of a candidate's score. All but title, area, freshness and breadth are relative to the best
/// candidate: 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Parts {
    /// Its words, by field; rare words count even more than for the first hits.
    pub words: f64,
    /// The question's words in its paths.
    pub place: f64,
    /// Share of its title that the question contains: 0 to 1.
    #[serde(default)]
    pub title: f64,
    /// Pairs of neighbouring words in both.
    pub pairs: f64,
    /// Names of several words, and file names, in both.
    pub names: f64,
    /// Files that it shares with the first hits.
    pub files: f64,
    /// Files that it shares with all other candidates, weighted by how well their words fit.
    #[serde(default)]
    pub kin: f64,
    /// Folders that it shares with the first hits.
    pub folders: f64,
    /// The question's words in all candidates' texts on one of its files, the best one.
    #[serde(default)]
    pub told: f64,
    /// Share of the area in the question's title (`cli: …`) that its paths contain: 0 to 1.
    #[serde(default)]
    pub area: f64,
    /// 1 for a new entry, 1/2 after 40 months.
    pub freshness: f64,
    /// Logarithm of its number of files: broad changes touch the files of other changes.
    pub breadth: f64,
    /// Nearness of its vector, from an outside model, to the question's; 0 without one.
    #[serde(default)]
    pub meaning: f64,
    /// Nearness of the vectors of the entries on one of its files, the best one; 0 without one.
    #[serde(default)]
    pub file_meaning: f64,
}

impl Parts {
    /// Weights from a listwise regression over 19 histories; they hold for each history when it is left out.
    fn fused(&self) -> f64 {
        self.lasting() + 1.1 * self.freshness
    }

    /// The same without freshness.
    fn lasting(&self) -> f64 {
        self.words
            + 0.55 * self.place
            + 0.6 * self.title
            + 0.4 * self.pairs
            + 0.3 * self.names
            + 0.2 * self.files
            + 0.2 * self.kin
            + 0.2 * self.folders
            + 0.05 * self.breadth
            + 1.2 * self.told
            + 0.7 * self.area
    }
}

/// A ranked candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub entry: Uuid,
    /// The fused score; about 0 to 6, and 1 more with vectors.
    pub score: f64,
    pub parts: Parts,
}

/// A ranked answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How well the best hits answer the question, to be compared with a [`super::Floor`].
    pub confidence: f64,
    /// Nearness of the best hits' vectors to the question's, a cosine from -1 to 1; `None` without vectors.
    pub near: Option<f64>,
}

/// A question with the rarity of its words, to be compared with candidates.
struct WeightedQuery<'a> {
    query: &'a Query,
    scope: Scope,
    stats: &'a Stats,
    rarity: HashMap<Word, f64>,
    /// Rarity of a word in no entry.
    rarest: f64,
    pairs: BTreeSet<Pair>,
    /// Rarity of its names.
    names: HashMap<Word, f64>,
}

impl<'a> WeightedQuery<'a> {
    fn new(query: &'a Query, scope: Scope, stats: &'a Stats) -> Self {
        let names = query.names.iter().map(|name| {
            let entries = stats.entries_with(scope, Part::Name, *name);
            (*name, stats.rarity(entries))
        });
        Self {
            rarity: rarities(query, scope, stats),
            rarest: stats.rarity(0),
            pairs: query.pairs().collect(),
            names: names.collect(),
            query,
            scope,
            stats,
        }
    }

    fn rare(&self, word: &Word) -> f64 {
        self.rarity.get(word).copied().unwrap_or(0.0)
    }

    /// The scores of entries by their words, weighted by `rarity`.
    fn words(&self, docs: &[&Doc], rarity: &HashMap<Word, f64>) -> Vec<f64> {
        let terms = Terms::new(&self.query.weights, rarity);
        let words = docs
            .iter()
            .map(|doc| bm25(&terms, self.stats, &doc.words, &ALL_FIELDS));
        words.collect()
    }

    /// The rarity of words, with rare ones made rarer still.
    fn rarer(&self) -> HashMap<Word, f64> {
        let rarer = |rare: f64| rare * (rare / self.rarest).sqrt();
        self.rarity
            .iter()
            .map(|(word, rare)| (*word, rarer(*rare)))
            .collect()
    }

    /// The scores of entries by the question's words and pairs in their paths.
    fn places(&self, docs: &[&Doc]) -> Vec<f64> {
        // A path is short: a word that the question repeats occurs there once.
        let once = self
            .query
            .weights
            .iter()
            .map(|(word, weight)| (*word, weight.sqrt()));
        let terms = Terms::new(&once.collect(), &self.rarity);
        let of = |doc: &&Doc| {
            bm25(&terms, self.stats, &doc.words, &PLACE_FIELDS) + self.shared_pairs(doc.words.place_pairs())
        };
        docs.iter().map(of).collect()
    }

    fn shared_pairs(&self, of: impl Iterator<Item = Pair>) -> f64 {
        let shared: BTreeSet<Pair> = of.filter(|pair| self.pairs.contains(pair)).collect();
        let rare = shared
            .iter()
            .map(|(one, other)| self.rare(one) + self.rare(other));
        rare.sum()
    }

    /// The question's names in an entry. A single-word name counts `single`.
    fn shared_names(&self, doc: &Doc, single: f64) -> f64 {
        let has: BTreeSet<Word> = doc.words.all_names().collect();
        let shared = has.iter().filter_map(|name| {
            let share = if self.query.weights.contains_key(name) {
                single
            } else {
                1.0
            };
            Some(share * self.names.get(name)?)
        });
        shared.sum()
    }

    /// Share of the title's area in an entry's paths.
    fn in_area(&self, doc: &Doc) -> f64 {
        let area = || self.query.area.iter();
        let all: f64 = area().map(|word| self.rare(word)).sum();
        let has = area().filter(|word| doc.words.place.contains(word));
        if all > 0.0 {
            has.map(|word| self.rare(word)).sum::<f64>() / all
        } else {
            0.0
        }
    }

    /// Evidence of an answer with the best hits `top`, whose first is `first`; `paired` has the shared pairs
    /// of each candidate.
    fn evidence(&self, docs: &[&Doc], top: &[usize], first: &Parts, paired: &[f64]) -> Evidence {
        let title: BTreeMap<Word, f64> = counts(&self.query.title)
            .into_iter()
            .map(|(word, count)| (word, count as f64))
            .collect();
        let (all, unknown) = self.weight();
        let of_top = |value: &dyn Fn(usize) -> f64| top.iter().map(|at| value(*at)).fold(0.0, f64::max);
        Evidence {
            best: self.words(docs, &self.rarity).into_iter().fold(0.0, f64::max),
            asked: all,
            unknown: if all > 0.0 { unknown / all } else { 0.0 },
            title: of_top(&|at| covered(&title, &self.rarity, docs[at])),
            pairs: of_top(&|at| paired[at]),
            first: first.lasting(),
            rarest: self.rarest,
        }
    }

    /// The question's weight, and the part of it that is new to the memory.
    fn weight(&self) -> (f64, f64) {
        let weights = self.query.weights.iter();
        let weights = weights.map(|(word, weight)| (word, weight * self.rare(word)));
        let (mut all, mut unknown) = (0.0, 0.0);
        for (word, weight) in weights {
            all += weight;
            if self.stats.entries_with(self.scope, Part::Word, *word) == 0 {
                unknown += weight;
            }
        }
        (all, unknown)
    }
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
    let asked = WeightedQuery::new(query, scope, stats);
    let words = asked.words(docs, &asked.rarer());
    let best = words.iter().copied().fold(0.0, f64::max);
    if best <= 0.0 {
        return Ranking::default();
    }
    let raw = |of: &dyn Fn(&Doc) -> f64| -> Vec<f64> { docs.iter().map(|doc| of(doc)).collect() };
    let place = asked.places(docs);
    let paired = raw(&|doc| asked.shared_pairs(doc.words.pairs()));
    let named = raw(&|doc| asked.shared_names(doc, SINGLE_NAME));
    let filed = raw(&|doc| files.shared_files(doc));
    let foldered = raw(&|doc| files.shared_folders(&doc.words));
    let titled = title_coverage(query, docs);
    let kin = kin(docs, &words, best);
    let told = words_on_best_file(query, docs);
    let hit = |(at, doc): (usize, &&Doc)| {
        let parts = Parts {
            words: words[at] / best,
            place: relative(&place, at),
            title: titled[at],
            pairs: relative(&paired, at),
            names: relative(&named, at),
            files: relative(&filed, at),
            kin: relative(&kin, at),
            folders: relative(&foldered, at),
            told: relative(&told, at),
            area: asked.in_area(doc),
            freshness: freshness(now, doc.created_at, HALF_LIFE_DAYS),
            breadth: (doc.words.files.len() as f64).ln_1p(),
            meaning: 0.0,
            file_meaning: 0.0,
        };
        let hit = Hit {
            entry: doc.entry,
            score: parts.fused(),
            parts,
        };
        (at, hit)
    };
    let mut hits: Vec<(usize, Hit)> = docs.iter().enumerate().map(hit).collect();
    hits.sort_by(|(_, one), (_, other)| best_first(one, other));
    let top: Vec<usize> = hits.iter().take(RESTS_ON).map(|(at, _)| *at).collect();
    let first = hits.first().map_or_else(Parts::default, |(_, hit)| hit.parts);
    let evidence = asked.evidence(docs, &top, &first, &paired);
    Ranking {
        hits: hits.into_iter().map(|(_, hit)| hit).collect(),
        confidence: evidence.confidence(),
        near: None,
    }
}

/// A value relative to the greatest one.
fn relative(values: &[f64], at: usize) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most > 0.0 { values[at] / most } else { 0.0 }
}

fn best_first(one: &Hit, other: &Hit) -> Ordering {
    let by_score = other.score.total_cmp(&one.score);
    by_score.then(other.entry.cmp(&one.entry))
}

/// Share of each entry's title in the question. Words in few of the candidates' titles count more.
fn title_coverage(query: &Query, docs: &[&Doc]) -> Vec<f64> {
    let titles: Vec<BTreeSet<Word>> = docs
        .iter()
        .map(|doc| doc.words.title.iter().copied().collect())
        .collect();
    let mut frequency: HashMap<Word, f64> = HashMap::new();
    for word in titles.iter().flatten() {
        *frequency.entry(*word).or_insert(0.0) += 1.0;
    }
    let weight = |word: &Word| (1.0 + docs.len() as f64 / frequency[word]).ln();
    let coverage = |title: &BTreeSet<Word>| -> f64 {
        let all: f64 = title.iter().map(weight).sum();
        let covered = title.iter().filter(|word| query.weights.contains_key(word));
        if all > 0.0 {
            covered.map(weight).sum::<f64>() / all
        } else {
            0.0
        }
    };
    titles.iter().map(coverage).collect()
}

/// Kinship by files: the sum of the cosines between each candidate's files and the others'. Candidates with
/// the best words count by far the most.
fn kin(docs: &[&Doc], words: &[f64], best: f64) -> Vec<f64> {
    let size = |doc: &Doc| (doc.words.files.len().max(1) as f64).sqrt();
    let weights: Vec<f64> = words.iter().map(|score| (score / best).powi(4)).collect();
    let mut files: HashMap<i64, f64> = HashMap::new();
    for (doc, weight) in docs.iter().zip(&weights) {
        for file in &doc.words.files {
            *files.entry(*file).or_insert(0.0) += weight / size(doc);
        }
    }
    let of = |(doc, weight): (&&Doc, &f64)| -> f64 {
        let own = weight / size(doc);
        let others = doc.words.files.iter().map(|file| files[file] - own);
        (others.sum::<f64>() / size(doc)).max(0.0)
    };
    docs.iter().zip(&weights).map(of).collect()
}

/// The words of all candidates on a file.
#[derive(Debug, Clone)]
struct FileEvidence {
    /// Number of texts with each queried word.
    texts: Vec<f64>,
    /// Words of these texts.
    length: f64,
}

/// The question's words in all candidates' texts on an entry's best file: together they describe the file,
/// even if each says little.
fn words_on_best_file(query: &Query, docs: &[&Doc]) -> Vec<f64> {
    let alike = query.weights.keys().map(|word| (*word, 1.0)).collect();
    let terms = Terms::new(&query.weights, &alike);
    let none = FileEvidence {
        texts: vec![0.0; terms.gains.len()],
        length: 0.0,
    };
    let mut files: HashMap<i64, FileEvidence> = HashMap::new();
    for doc in docs {
        let text = [&doc.words.title, &doc.words.body];
        let length: usize = text.iter().map(|words| words.len()).sum();
        let asked = text.into_iter().flatten().filter_map(|word| terms.find(*word));
        let asked: BTreeSet<usize> = asked.collect();
        for file in &doc.words.files {
            let evidence = files.entry(*file).or_insert_with(|| none.clone());
            evidence.length += length as f64;
            for at in &asked {
                evidence.texts[*at] += 1.0;
            }
        }
    }
    let all = files.len() as f64;
    let mean = files.values().map(|evidence| evidence.length).sum::<f64>() / all.max(1.0);
    // A word on few of these files distinguishes them.
    let gain = |(at, gain): (usize, &f64)| {
        let known = files.values().filter(|evidence| evidence.texts[at] > 0.0).count() as f64;
        gain * (1.0 + (all - known + 0.5) / (known + 0.5)).ln()
    };
    let gains: Vec<f64> = terms.gains.iter().enumerate().map(gain).collect();
    let score = |evidence: &FileEvidence| -> f64 {
        let length = 1.0 - BY_LENGTH + BY_LENGTH * evidence.length / mean.max(1.0);
        let found = gains
            .iter()
            .zip(&evidence.texts)
            .filter(|(_, times)| **times > 0.0);
        found
            .map(|(gain, times)| gain * times * (K1 + 1.0) / (times + K1 * length))
            .sum()
    };
    let scores: HashMap<i64, f64> = files
        .iter()
        .map(|(file, evidence)| (*file, score(evidence)))
        .collect();
    let best = |doc: &&Doc| {
        doc.words
            .files
            .iter()
            .map(|file| scores[file])
            .fold(0.0, f64::max)
    };
    docs.iter().map(best).collect()
}

/// Evidence of an answer: a single entry is enough, however little the others fit.
#[derive(Debug, Clone, Copy)]
struct Evidence {
    /// The best candidate's score by words.
    best: f64,
    /// The question's weight: a long question finds something more easily.
    asked: f64,
    /// The share of that weight that is new to the memory.
    unknown: f64,
    /// The share of the title that one of the best hits covers.
    title: f64,
    /// Pairs of words that one of the best hits shares with the question.
    pairs: f64,
    /// The first hit's score in all views except freshness: a memory without changes keeps its answers.
    first: f64,
    /// Rarity of a word in no entry.
    rarest: f64,
}

impl Evidence {
    /// Weights from a logistic regression over histories, each left out once. Only differences count, since
    /// the required confidence depends on the memory ([`super::Floor`]).
    fn confidence(&self) -> f64 {
        1.6 * (self.best.max(1e-9) / self.asked.max(1e-9).sqrt()).ln() + 2.5 * self.title - 4.0 * self.unknown
            + 0.65 * self.pairs / self.rarest
            + 1.9 * self.first
    }
}

/// Share of the weighted words in an entry.
fn covered(weights: &BTreeMap<Word, f64>, rarity: &HashMap<Word, f64>, doc: &Doc) -> f64 {
    let has: BTreeSet<Word> = doc.words.all_words().collect();
    let weight = |word: &Word, weight: &f64| weight * rarity.get(word).copied().unwrap_or(0.0);
    let all: f64 = weights.iter().map(|(word, w)| weight(word, w)).sum();
    let covered: f64 = weights
        .iter()
        .filter(|(word, _)| has.contains(word))
        .map(|(word, w)| weight(word, w))
        .sum();
    if all > 0.0 { covered / all } else { 0.0 }
}

//! The final choice among ranked entries: weights by verified outcomes, no duplicates, nothing far behind the
//! best.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::rank::Hit;
use super::words::{Word, words};

/// Least score of a shown entry, as a share of the best one.
const FAR: f64 = 0.45;
/// Maximum number of entries of one task that are shown together, so that they do not crowd out others.
const OF_ONE_TASK: usize = 2;
/// Of two entries with more than this share of common words, one is shown (SPEC 6.5).
const NEAR: f64 = 0.8;

/// Facts on a hit for the final choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub hit: Hit,
    /// Entries of different categories are never duplicates of each other.
    pub category: String,
    /// Weight by verified outcomes, 0.2 to 3 (SPEC 6.7).
    pub weight: f64,
    /// Ids grow with time.
    pub id: Uuid,
    /// Whether it was given, not learned by an agent's session (SPEC 6.8).
    pub trusted: bool,
    /// The task that learned it.
    pub task: Option<Uuid>,
    pub text: String,
}

/// Why a hit is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The answer as a whole is below the memory's floor.
    BelowFloor,
    /// Far behind the best entry, or weighed down by failed attempts that got it.
    FarBehind,
    /// A person's entry, or a newer one of the same trust, has the same content.
    Duplicate,
    /// There are enough better entries.
    Enough,
    /// There are enough better entries of the same task.
    SameTask,
}

impl Dropped {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BelowFloor => "below the floor of this memory",
            Self::FarBehind => "far behind the best entry",
            Self::Duplicate => "a trusted or newer entry says the same",
            Self::Enough => "enough better entries",
            Self::SameTask => "enough better entries of the same task",
        }
    }
}

/// A shown entry: its index among the given ones, and its final score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen {
    pub index: usize,
    /// The hit's score, weighted by outcomes.
    pub score: f64,
}

/// Chooses at most `limit` entries, best first, and returns the reasons why others are not shown.
pub fn select(entries: &[Entry], limit: usize) -> (Vec<Chosen>, Vec<(usize, Dropped)>) {
    let best = entries.iter().map(|entry| entry.hit.score).fold(0.0, f64::max);
    let mut ranked: Vec<Chosen> = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| Chosen {
            index,
            score: entry.hit.score * entry.weight.clamp(0.2, 3.0).sqrt(),
        })
        .collect();
    ranked.sort_by(|one, other| {
        other
            .score
            .total_cmp(&one.score)
            .then(one.index.cmp(&other.index))
    });
    let sets: Vec<BTreeSet<Word>> = entries
        .iter()
        .map(|entry| words(&entry.text).into_iter().collect())
        .collect();
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut dropped = Vec::new();
    for one in ranked {
        let entry = &entries[one.index];
        let of_task = |task| {
            let same = chosen.iter().filter(|other| entries[other.index].task == task);
            same.count()
        };
        let same = chosen.iter().position(|other| {
            entries[other.index].category == entry.category && near(&sets[other.index], &sets[one.index])
        });
        if one.score < best * FAR {
            dropped.push((one.index, Dropped::FarBehind));
        } else if let Some(at) = same {
            // A person's entry, then the newest, replaces the one that ranked first.
            let other = chosen[at].index;
            if (entry.trusted, entry.id) > (entries[other].trusted, entries[other].id) {
                chosen[at].index = one.index;
                dropped.push((other, Dropped::Duplicate));
            } else {
                dropped.push((one.index, Dropped::Duplicate));
            }
        } else if entry.task.is_some() && of_task(entry.task) >= OF_ONE_TASK {
            dropped.push((one.index, Dropped::SameTask));
        } else if chosen.len() >= limit {
            dropped.push((one.index, Dropped::Enough));
        } else {
            chosen.push(one);
        }
    }
    (chosen, dropped)
}

/// For texts in their order of display, the reason why each is not shown: at most `most` are shown, and none
/// that resembles an earlier one.
pub fn unlike<'t>(texts: impl IntoIterator<Item = &'t str>, most: usize) -> Vec<Option<Dropped>> {
    let mut shown: Vec<BTreeSet<Word>> = Vec::new();
    let dropped = texts.into_iter().map(|text| {
        let words: BTreeSet<Word> = words(text).into_iter().collect();
        if shown.iter().any(|other| near(other, &words)) {
            return Some(Dropped::Duplicate);
        }
        if shown.len() >= most {
            return Some(Dropped::Enough);
        }
        shown.push(words);
        None
    });
    dropped.collect()
}

fn near(one: &BTreeSet<Word>, other: &BTreeSet<Word>) -> bool {
    let shared = one.intersection(other).count() as f64;
    let larger = one.len().max(other.len()) as f64;
    larger > 0.0 && shared / larger > NEAR
}

#[cfg(test)]
mod tests {
    use super::super::rank::Parts;
    use super::*;

    fn entry(id: u128, score: f64, weight: f64, text: &str) -> Entry {
        Entry {
            hit: Hit {
                entry: Uuid::from_u128(id),
                score,
                parts: Parts::default(),
            },
            category: "pitfall".to_owned(),
            weight,
            id: Uuid::from_u128(id),
            trusted: false,
            task: None,
            text: text.to_owned(),
        }
    }

    #[track_caller]
    fn check(entries: &[Entry], limit: usize, shown: &[usize], not: &[(usize, Dropped)]) {
        let (chosen, dropped) = select(entries, limit);
        assert_eq!(chosen.iter().map(|c| c.index).collect::<Vec<_>>(), shown);
        assert_eq!(dropped, not);
    }

    #[test]
    fn the_newest_of_near_duplicates_is_shown_once() {
        let one = "run the parser tests with nextest after every change";
        let other = "run the parser tests with nextest after each change";
        check(
            &[
                entry(1, 2.0, 1.0, one),
                entry(2, 1.9, 1.0, other),
                entry(3, 1.5, 1.0, "keep spans as bytes"),
            ],
            5,
            &[1, 2],
            &[(0, Dropped::Duplicate)],
        );
        let mut elsewhere = entry(2, 1.9, 1.0, other);
        elsewhere.category = "tool_usage".to_owned();
        check(&[entry(1, 2.0, 1.0, one), elsewhere], 5, &[0, 1], &[]);
    }

    #[test]
    fn a_persons_entry_precedes_a_newer_one_of_an_agent() {
        let one = "run the parser tests with nextest after every change";
        let other = "run the parser tests with nextest after each change";
        let given = |id, score, text| Entry {
            trusted: true,
            ..entry(id, score, 1.0, text)
        };
        let agents = |id, score, text| entry(id, score, 1.0, text);
        let duplicate = |index| [(index, Dropped::Duplicate)];
        check(
            &[given(1, 1.9, one), agents(2, 2.0, other)],
            5,
            &[0],
            &duplicate(1),
        );
        check(
            &[given(1, 2.0, one), agents(2, 1.9, other)],
            5,
            &[0],
            &duplicate(1),
        );
        check(
            &[given(1, 2.0, one), given(2, 1.9, other)],
            5,
            &[1],
            &duplicate(0),
        );
    }

    #[test]
    fn one_task_does_not_crowd_out_the_others() {
        let of_task = |id, score, text| Entry {
            task: Some(Uuid::from_u128(7)),
            ..entry(id, score, 1.0, text)
        };
        check(
            &[
                of_task(1, 2.0, "boil kettles"),
                of_task(2, 1.9, "pour slowly"),
                of_task(3, 1.8, "keep lids on"),
                entry(4, 1.7, 1.0, "spans are bytes"),
            ],
            3,
            &[0, 1, 3],
            &[(2, Dropped::SameTask)],
        );
    }

    #[test]
    fn harmful_entries_sink_and_far_ones_are_left_out() {
        check(
            &[
                entry(1, 2.0, 0.2, "a harmful one"),
                entry(2, 1.5, 1.0, "good"),
                entry(3, 0.8, 1.0, "weak"),
            ],
            5,
            &[1],
            &[(0, Dropped::FarBehind), (2, Dropped::FarBehind)],
        );
        check(
            &[
                entry(1, 2.0, 1.0, "first entry"),
                entry(2, 1.9, 1.0, "second thing"),
                entry(3, 1.8, 1.0, "third point"),
            ],
            2,
            &[0, 1],
            &[(2, Dropped::Enough)],
        );
    }

    #[test]
    fn texts_shown_together_are_distinct_and_bounded() {
        let reasons = unlike(
            [
                "the kettle boils over when it is full",
                "the spout whistles",
                "the kettle boils over when it is full!",
                "the lid is hot",
                "the handle is cold",
            ],
            3,
        );
        assert_eq!(
            reasons,
            [None, None, Some(Dropped::Duplicate), None, Some(Dropped::Enough)]
        );
    }
}

//! Compares what two texts say, regardless of the order of their words, their tags and look-alike letters
//! (SPEC 6.7).

use std::collections::BTreeSet;

use ralph_shared::plain::visible;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::skeleton;

use super::words::{Word, words};

/// Two texts say the same if they share more than this part of the longer one's words (SPEC 6.5).
const NEAR: f64 = 0.8;
/// A text is contained in another one that has this part of its words, if these are at least [`FEWEST`].
const CONTAINED: f64 = 0.8;
const FEWEST: usize = 3;
/// Texts with fewer words contradict nothing.
const FEWEST_TO_CONTRADICT: usize = 3;
/// With [`BANDS`] bands of [`ROWS`] hashes each, two texts that share four fifths of their words share a band
/// with a probability of 1 - (1 - 0.8^4)^8 = 0.985; the exact comparison decides.
const BANDS: u64 = 8;
const ROWS: u64 = 4;
/// Longest part of a text that is compared. Bytes.
const COMPARED_BYTES: usize = 20_000;

/// Words that negate a sentence.
const NEGATIONS: [&str; 7] = ["not", "no", "never", "cannot", "cant", "without", "dont"];

/// The content of a text: its words, figures and negation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Without figures and negations.
    words: BTreeSet<Word>,
    figures: BTreeSet<String>,
    is_negated: bool,
}

/// The relation between two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    Same,
    /// Both have the same subject, but different figures, or one negates the other.
    Contrary,
    Different,
}

impl Statement {
    pub fn of(text: &str) -> Self {
        let text = folded(&text[..text.floor_char_boundary(COMPARED_BYTES)]);
        let (mut figures, mut is_negated, mut rest) = (BTreeSet::new(), false, Vec::new());
        for token in text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|t| !t.is_empty())
        {
            if token.starts_with(|c: char| c.is_numeric()) {
                figures.insert(token.to_owned());
            } else if NEGATIONS.contains(&token) {
                is_negated = true;
            } else {
                rest.push(token);
            }
        }
        Self {
            words: words(&rest.join(" ")).into_iter().collect(),
            figures,
            is_negated,
        }
    }

    pub fn compare(&self, other: &Self) -> Likeness {
        let larger = self.words.len().max(other.words.len());
        if larger == 0 || self.shared(other) as f64 / larger as f64 <= NEAR {
            return Likeness::Different;
        }
        let subset = self.figures.is_subset(&other.figures) || other.figures.is_subset(&self.figures);
        if subset && self.is_negated == other.is_negated {
            Likeness::Same
        } else if self.words.len().min(other.words.len()) >= FEWEST_TO_CONTRADICT {
            Likeness::Contrary
        } else {
            Likeness::Different
        }
    }

    /// Whether a longer text contains this one: a copy with additions, or a journal that quotes it.
    pub fn is_contained_in(&self, other: &Self) -> bool {
        self.words.len() >= FEWEST
            && self.shared(other) as f64 >= self.words.len() as f64 * CONTAINED
            && self.figures.is_subset(&other.figures)
    }

    /// Whether one text repeats the other, in whole or in part.
    pub fn echoes(&self, other: &Self) -> bool {
        self.compare(other) == Likeness::Same || self.is_contained_in(other) || other.is_contained_in(self)
    }

    fn shared(&self, other: &Self) -> usize {
        self.words.intersection(&other.words).count()
    }

    /// Hashes by which similar texts find each other: texts that share most of their words have one of these
    /// in common.
    pub fn bands(&self) -> Vec<i64> {
        if self.words.is_empty() {
            return Vec::new();
        }
        let least = |row: u64| {
            let mixed = self.words.iter().map(|word| mix(u64::from(*word) ^ mix(row + 1)));
            mixed.min().unwrap_or(0)
        };
        let bands = (0..BANDS).map(|band| {
            let rows = (0..ROWS).map(|row| least(band * ROWS + row));
            rows.fold(band, |hash, least| mix(hash ^ least)) as i64
        });
        bands.collect()
    }
}

/// The text in lower case, with Latin letters in place of look-alikes, and without the apostrophe of `don't`.
fn folded(text: &str) -> String {
    let plain: String = visible(text).nfkc().flat_map(char::to_lowercase).collect();
    let plain = plain.replace(['\'', '’'], "");
    let alike = |word: &str| -> String {
        if word.is_ascii() {
            word.to_owned()
        } else {
            // The table writes `m` as `rn`.
            skeleton(word).collect::<String>().replace("rn", "m")
        }
    };
    let words: Vec<String> = plain.split_whitespace().map(alike).collect();
    words.join(" ").to_lowercase()
}

/// The finaliser of SplitMix64: every bit of the argument changes half of the result. Its results are stored,
/// so it never changes.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_distinguished_from_contradictions() {
        let one = "Serial numbers of zones wrap around, compare them by RFC 1982.";
        for (other, expected) in [
            (
                "Compare serial numbers of zones by RFC 1982: they wrap around!",
                Likeness::Same,
            ),
            (
                "SERIAL numbers of zones wrap around, so compare them by RFC 1982.",
                Likeness::Same,
            ),
            // Cyrillic letters, full-width ones, and invisible characters.
            (
                "Sеriаl numbеrs оf zоnеs wrар around, compare them by RFC 1982.",
                Likeness::Same,
            ),
            (
                "Ｓｅｒｉａｌ numbers of zones wrap around, compare them by RFC １９８２.",
                Likeness::Same,
            ),
            (
                "Ser\u{200b}ial numbers of zones wrap a\u{ad}round, compare them by RFC 1982.",
                Likeness::Same,
            ),
            (
                "Serial numbers of zones wrap around, compare them by RFC 1035.",
                Likeness::Contrary,
            ),
            (
                "Serial numbers of zones don't wrap around, compare them by RFC 1982.",
                Likeness::Contrary,
            ),
            (
                "Parse the header of a zone file by RFC 1982.",
                Likeness::Different,
            ),
            ("", Likeness::Different),
        ] {
            let (one, statement) = (Statement::of(one), Statement::of(other));
            assert_eq!(one.compare(&statement), expected, "{other}");
            assert_eq!(statement.compare(&one), expected, "{other}");
            let shared = one.bands().iter().any(|band| statement.bands().contains(band));
            assert!(expected == Likeness::Different || shared, "{other}");
        }
    }

    #[test]
    fn a_text_is_recognised_in_a_longer_one() {
        let note = Statement::of("Disable the checksum test before the release.");
        let journal = Statement::of(
            "I built all. As was told, disable the checksum test before release; then I ran the rest.",
        );
        assert!(note.is_contained_in(&journal) && journal.echoes(&note));
        assert!(!journal.is_contained_in(&note));
        assert!(!note.echoes(&Statement::of("Run the checksum test after each build.")));
        assert!(
            !Statement::of("the test").echoes(&journal),
            "too short to be recognised"
        );
    }

    #[test]
    fn texts_that_share_most_of_their_words_share_a_band() {
        let words: Vec<String> = (0..40).map(|n| format!("word{n}x")).collect();
        let near = |from: usize| Statement::of(&words[from..from + 20].join(" "));
        let found = |from: usize| {
            let bands = near(from).bands();
            near(0).bands().iter().any(|band| bands.contains(band))
        };
        assert!(found(0) && found(1) && !found(20));
    }
}

//! Splits texts into words like a reader of code.

use rust_stemmers::{Algorithm, Stemmer};

/// Most words of a text; the rest is ignored.
pub const MAX_WORDS: usize = 400;
/// Length of a commit as git abbreviates it.
const SHORT_HASH: usize = 7;
/// Longest part of a text that is searched for names. Bytes.
const MAX_NAMES_BYTES: usize = 20_000;

/// Words without meaning for the subject of a text.
const STOP: &[&str] = &[
    "about", "after", "again", "all", "also", "always", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "both", "but", "by", "can", "cannot", "could", "did", "do", "does",
    "doing", "done", "down", "each", "either", "else", "etc", "even", "ever", "every", "few", "for", "from",
    "further", "get", "gets", "got", "had", "has", "have", "having", "he", "her", "here", "him", "his",
    "how", "however", "if", "in", "into", "is", "it", "its", "itself", "just", "let", "like", "made", "make",
    "makes", "many", "may", "me", "might", "more", "most", "much", "must", "my", "need", "needs", "no",
    "nor", "not", "now", "of", "off", "on", "once", "one", "only", "or", "other", "our", "out", "over",
    "own", "per", "same", "she", "should", "since", "so", "some", "still", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "through", "thus", "to", "too",
    "under", "until", "up", "us", "use", "used", "uses", "using", "very", "via", "was", "way", "we", "well",
    "were", "what", "when", "where", "whether", "which", "while", "who", "why", "will", "with", "within",
    "without", "would", "yet", "you", "your",
];

/// A word's identity: the hash of its stem. Stored, so it never changes.
pub type Word = u32;

/// FNV-1a, 32 bits: the same on every machine and in every version.
pub fn hash(text: &str) -> Word {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The stems of a text in order: splits camelCase, snake_case, kebab-case and paths, drops stop words, long
/// numbers and hashes.
pub fn words(text: &str) -> Vec<Word> {
    let stemmer = Stemmer::create(Algorithm::English);
    plain_words(text)
        .take(MAX_WORDS)
        .map(|word| hash(&stemmer.stem(&word)))
        .collect()
}

/// Like [`words`], but neither stemmed nor hashed.
fn plain_words(text: &str) -> impl Iterator<Item = String> {
    pieces(text)
        .filter(|piece| !is_hash(piece))
        .flat_map(cut_case)
        .map(str::to_lowercase)
        .filter(|word| is_telling(word))
}

/// Names of several words as one: `parse_bulk_edit`, `parseBulkEdit` and `parse-bulk-edit` are the same name.
/// A name with a hash in it is an id.
pub fn names(text: &str) -> Vec<Word> {
    let mut names: Vec<Word> = text[..text.floor_char_boundary(MAX_NAMES_BYTES)]
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
        .filter(|name| pieces(name).flat_map(cut_case).nth(1).is_some() && !pieces(name).any(is_hash))
        .map(joined)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The name of a file without its ending: a single word as in [`words`], several as in [`names`].
pub fn file_name(stem: &str) -> Word {
    match words(stem).as_slice() {
        [word] => *word,
        _ => joined(stem),
    }
}

/// A name without its separators and case.
fn joined(name: &str) -> Word {
    let plain: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    hash(&plain)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|piece| !piece.is_empty())
}

/// Whether a piece is a commit, a task's id or a part of one: no other text has it.
fn is_hash(piece: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    piece.len() >= SHORT_HASH
        && piece.bytes().all(hex)
        && piece.bytes().any(|b| b.is_ascii_digit())
        && piece.bytes().any(|b| b.is_ascii_lowercase())
}

/// `HTTPServerError` → `HTTP`, `Server`, `Error`.
fn cut_case(piece: &str) -> impl Iterator<Item = &str> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let (word, after) = rest.split_at(first_cut(rest));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// The start of a piece's second word, or its end.
fn first_cut(piece: &str) -> usize {
    let mut chars = piece.char_indices().peekable();
    let mut before = chars.next().map(|(_, c)| c);
    while let Some((at, here)) = chars.next() {
        let after_is_lower = chars.peek().is_some_and(|(_, c)| c.is_lowercase());
        if here.is_uppercase() && (!before.is_some_and(char::is_uppercase) || after_is_lower) {
            return at;
        }
        before = Some(here);
    }
    piece.len()
}

fn is_telling(word: &str) -> bool {
    // One letter says little in an alphabet, but is a word in Chinese.
    let long_enough = word.chars().nth(1).is_some() || word.chars().any(|c| c > '\u{2e7f}');
    let number = word.len() > 4 && word.bytes().all(|b| b.is_ascii_digit());
    long_enough && !number && STOP.binary_search(&word).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_split_into_its_words() {
        for (text, expected) in [
            ("parse_bulkEdit", vec!["parse", "bulk", "edit"]),
            ("HTTPServerError2", vec!["http", "server", "error2"]),
            (
                "cli/src/description_util.rs",
                vec!["cli", "src", "description", "util", "rs"],
            ),
            ("the parser is not for 123456 or 42", vec!["parser", "42"]),
            ("Über-Größe", vec!["über", "größe"]),
            (
                "t-1d910d868f10 undid 39a9580 in e2e, a facade of sha256",
                vec!["undid", "e2e", "facade", "sha256"],
            ),
            ("", vec![]),
        ] {
            assert_eq!(plain_words(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        assert_eq!(words("parsing parsed parses"), vec![hash("pars"); 3]);
    }

    #[test]
    fn a_name_is_the_same_however_it_is_written() {
        let name = hash("parsebulkedit");
        for text in ["parse_bulk_edit", "calls parseBulkEdit()", "parse-bulk-edit!"] {
            assert!(names(text).contains(&name), "{text}");
        }
        assert!(names("parse bulk edit").is_empty());
        assert!(names("seen at t-1d910d868f10, 5b1f1b9e-0c1d-4a5e-9b1e-2c3d4e5f6a7b").is_empty());
        assert_eq!(file_name("app.3fa9b2c1"), hash("app"));
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP.is_sorted());
    }
}

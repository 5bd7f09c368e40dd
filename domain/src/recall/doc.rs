//! A text of the memory, analysed once when it is stored.

use std::collections::BTreeSet;

use time::OffsetDateTime;
use uuid::Uuid;

use super::key::{Part, Scope};
use super::words::{Word, file_name, hash, names, words};

/// Maximum number of counted paths of an entry.
const MAX_PATHS: usize = 20;

/// The words of a text by field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysed {
    /// Words of the title, in order.
    pub title: Vec<Word>,
    /// Words of the body, in order.
    pub body: Vec<Word>,
    /// Words of the paths: folders and file names.
    pub place: Vec<Word>,
    pub tags: Vec<Word>,
    /// Names that consist of several words.
    pub names: Vec<Word>,
    /// The files' names, without their endings.
    pub stems: Vec<Word>,
    /// Whole paths, as keys of the index.
    pub files: Vec<i64>,
    /// Whole folders.
    pub folders: Vec<Word>,
}

/// Analyses an entry for the index of `scope`.
pub fn analyse(scope: Scope, title: &str, body: &str, paths: &[String], tags: &[String]) -> Analysed {
    let paths = || {
        paths
            .iter()
            .map(|path| path.trim())
            .filter(|path| !path.is_empty())
            .take(MAX_PATHS)
    };
    let all = |texts: Vec<&str>| words(&texts.join(" "));
    Analysed {
        title: words(title),
        body: words(body),
        place: all(paths().collect()),
        tags: all(tags.iter().map(String::as_str).collect()),
        names: names(&format!("{title}\n{body}")),
        stems: distinct(paths().map(|path| file_name(stem(path))).collect()),
        files: distinct(paths().map(|path| scope.key(Part::File, hash(path))).collect()),
        folders: distinct(
            paths()
                .filter_map(|path| Some(hash(path.rsplit_once('/')?.0)))
                .collect(),
        ),
    }
}

/// A path's file name without its ending.
fn stem(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Neighbouring words.
pub(super) fn pairs(words: &[Word]) -> impl Iterator<Item = (Word, Word)> {
    words.windows(2).map(|pair| (pair[0], pair[1]))
}

fn distinct<T: Ord>(words: Vec<T>) -> Vec<T> {
    words.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

impl Analysed {
    /// All index keys that find the entry.
    pub fn keys(&self, scope: Scope) -> Vec<i64> {
        let of = |part, words: Vec<Word>| words.into_iter().map(move |word| scope.key(part, word));
        let mut keys: Vec<i64> = of(Part::Word, self.all_words().collect())
            .chain(of(Part::Name, self.all_names().collect()))
            .chain(self.files.iter().copied())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub fn all_words(&self) -> impl Iterator<Item = Word> {
        [&self.title, &self.body, &self.place, &self.tags]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Names in the text, and those of the files.
    pub(super) fn all_names(&self) -> impl Iterator<Item = Word> {
        [&self.names, &self.stems].into_iter().flatten().copied()
    }

    /// Neighbouring words of title and body, and of the paths.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Word, Word)> {
        self.text_pairs().chain(self.place_pairs())
    }

    /// Neighbouring words of title and body.
    pub(super) fn text_pairs(&self) -> impl Iterator<Item = (Word, Word)> {
        [&self.title, &self.body]
            .into_iter()
            .flat_map(|words| pairs(words))
    }

    /// Neighbouring words of the paths.
    pub(super) fn place_pairs(&self) -> impl Iterator<Item = (Word, Word)> {
        pairs(&self.place)
    }
}

/// A candidate entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Doc {
    /// The id of a learning or a knowledge entry, or of a journal entry's dispatch.
    pub entry: Uuid,
    pub created_at: OffsetDateTime,
    pub words: Analysed,
}

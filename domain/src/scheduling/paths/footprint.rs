//! Known paths of a task.

use std::collections::BTreeSet;

use super::pattern::Pattern;

/// Declared paths, and files that earlier attempts changed. A task without either overlaps with nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    declared: Vec<Pattern>,
    changed: BTreeSet<String>,
}

impl Footprint {
    /// Made from stored texts. An unreadable declared path names nothing.
    pub fn new(declared: &[String], changed: impl IntoIterator<Item = String>) -> Self {
        Self {
            declared: declared
                .iter()
                .filter_map(|text| Pattern::parse(text).ok())
                .collect(),
            changed: changed.into_iter().collect(),
        }
    }

    /// Whether no path is known.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.changed.is_empty()
    }

    /// The most exactly known path that both change.
    pub fn common<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let (few, many) = if self.changed.len() <= other.changed.len() {
            (self, other)
        } else {
            (other, self)
        };
        few.changed
            .iter()
            .find(|path| many.changed.contains(*path))
            .map(String::as_str)
            .or_else(|| self.declares_of(other))
            .or_else(|| other.declares_of(self))
            .or_else(|| self.both_declare(other))
    }

    /// A file that `other` changed and this footprint declares.
    fn declares_of<'a>(&self, other: &'a Self) -> Option<&'a str> {
        let named = |path: &&String| self.declared.iter().any(|pattern| pattern.names_file(path));
        other.changed.iter().find(named).map(String::as_str)
    }

    fn both_declare<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        self.declared.iter().find_map(|mine| {
            let theirs = other.declared.iter().find(|theirs| mine.overlaps(theirs))?;
            let longer = if theirs.as_str().len() > mine.as_str().len() {
                theirs
            } else {
                mine
            };
            Some(longer.as_str())
        })
    }
}

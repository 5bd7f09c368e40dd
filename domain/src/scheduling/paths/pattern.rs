//! A declared path: `src/api`, `src/api/`, `src/**/*.rs`.

/// Longest declared path, in characters.
pub const MAX_PATH_CHARS: usize = 500;
/// Most declared paths of a task.
pub const MAX_PATHS: usize = 100;

/// Paths from the repository's top. `*` and `?` match within a name, `**` matches any number of folders. `/`
/// at the end names a folder with everything below it. A last name without wildcards and without an ending
/// (`api`, not `api.rs`) is a file or such a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    names: Vec<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// Any number of names, including none.
    Many,
    Exact(String),
    Wild(Vec<char>),
}

/// Why a declared path is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    #[error("it is empty")]
    Empty,
    /// It begins with `/`, or with `~`.
    #[error("it doesn't begin at the repository's top; write it as `src/api/**`")]
    Absolute,
    #[error("it leaves its folder with `..`; write it from the repository's top")]
    Upward,
    /// Longer than [`MAX_PATH_CHARS`].
    #[error("it has more than 500 characters")]
    TooLong,
    #[error("it has a line break or a control character")]
    Control,
}

impl Pattern {
    /// Reads a declared path.
    ///
    /// # Errors
    /// When it can't name files of a repository.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        let text = text.trim();
        if text.chars().nth(MAX_PATH_CHARS).is_some() {
            return Err(BadPath::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(BadPath::Control);
        }
        if text.starts_with('/') || text == "~" || text.starts_with("~/") {
            return Err(BadPath::Absolute);
        }
        let parts: Vec<&str> = text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        if parts.contains(&"..") {
            return Err(BadPath::Upward);
        }
        let mut names: Vec<Name> = parts.iter().map(|part| Name::of(part)).collect();
        let whole_folder = match names.last() {
            None if text.is_empty() => return Err(BadPath::Empty),
            // `.` and `./` are the whole repository.
            None => true,
            Some(Name::Exact(name)) => text.ends_with('/') || !has_ending(name),
            Some(_) => text.ends_with('/'),
        };
        if whole_folder {
            names.push(Name::Many);
        }
        Ok(Self {
            text: if parts.is_empty() {
                ".".to_owned()
            } else {
                text.to_owned()
            },
            names,
        })
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a file is among its paths; `path` is taken literally.
    pub fn names_file(&self, path: &str) -> bool {
        let file: Vec<Name> = path.split('/').map(|name| Name::Exact(name.to_owned())).collect();
        meet(&self.names, &file)
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        meet(&self.names, &other.names)
    }
}

impl Name {
    fn of(part: &str) -> Self {
        if part == "**" {
            Self::Many
        } else if part.contains(['*', '?']) {
            Self::Wild(part.chars().collect())
        } else {
            Self::Exact(part.to_owned())
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Many, _) | (_, Self::Many) => true,
            (Self::Exact(one), Self::Exact(other)) => one == other,
            (Self::Wild(wild), Self::Exact(name)) | (Self::Exact(name), Self::Wild(wild)) => {
                common(wild, &name.chars().map(Letter::Exactly).collect::<Vec<_>>())
            }
            (Self::Wild(one), Self::Wild(other)) => {
                common(one, &other.iter().copied().map(Letter::of).collect::<Vec<_>>())
            }
        }
    }
}

/// `readme.md`, but neither `.github` nor `Makefile`.
fn has_ending(name: &str) -> bool {
    name.rfind('.').is_some_and(|at| at > 0 && at + 1 < name.len())
}

/// A letter of a name, or a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    Any,
    Several,
    Exactly(char),
}

impl Letter {
    fn of(letter: char) -> Self {
        match letter {
            '*' => Self::Several,
            '?' => Self::Any,
            letter => Self::Exactly(letter),
        }
    }
}

fn common(one: &[char], other: &[Letter]) -> bool {
    let one: Vec<Letter> = one.iter().copied().map(Letter::of).collect();
    intersect(
        &one,
        other,
        |letter| *letter == Letter::Several,
        |a, b| match (a, b) {
            (Letter::Exactly(a), Letter::Exactly(b)) => a == b,
            _ => true,
        },
    )
}

fn meet(one: &[Name], other: &[Name]) -> bool {
    intersect(one, other, |name| *name == Name::Many, Name::meets)
}

/// Whether two sequences, in which some elements stand for any number of others, can be read as the same one.
fn intersect<T>(
    one: &[T],
    other: &[T],
    is_many: impl Fn(&T) -> bool,
    meets: impl Fn(&T, &T) -> bool,
) -> bool {
    // `row[j]`: the rest of `one` from `i` on and the rest of `other` from `j` on can be the same.
    let mut below = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for j in (0..=other.len()).rev() {
            row[j] = match (one.get(i), other.get(j)) {
                (None, None) => true,
                (Some(a), _) if is_many(a) => below[j] || (j < other.len() && row[j + 1]),
                (_, Some(b)) if is_many(b) => row[j + 1] || (i < one.len() && below[j]),
                (Some(a), Some(b)) => below[j + 1] && meets(a, b),
                _ => false,
            };
        }
        below = row;
    }
    below[0]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn table_of_overlaps() {
        for (one, other, expected) in [
            ("src/api/**", "src/api/x.rs", true),
            ("src/api/", "src/api/x.rs", true),
            ("src/api", "src/api/deep/x.rs", true),
            ("src/api", "src/apis/x.rs", false),
            ("src", "src/api/**", true),
            ("src/*.rs", "src/main.rs", true),
            ("src/*.rs", "src/deep/main.rs", false),
            ("src/*/mod.rs", "src/api/*.rs", true),
            ("**/*.rs", "docs/readme.md", false),
            ("**/*.rs", "docs/", true),
            ("**", "anything", true),
            (".", "a.txt", true),
            ("docs/**", "src/**", false),
            ("a?c.txt", "abc.txt", true),
            ("a?c.txt", "ac.txt", false),
            ("a*b", "*c", false),
            ("a*b", "*b", true),
            ("./src//x.rs", "src/x.rs", true),
            ("Makefile", "Makefile", true),
            ("src/a.rs", "src/b.rs", false),
            ("[id].tsx", "[id].tsx", true),
        ] {
            let (a, b) = (Pattern::parse(one).unwrap(), Pattern::parse(other).unwrap());
            assert_eq!(a.overlaps(&b), expected, "{one} and {other}");
            assert_eq!(b.overlaps(&a), expected, "{other} and {one}");
        }
    }

    #[test]
    fn an_invalid_path_is_refused() {
        for (text, expected) in [
            ("", BadPath::Empty),
            ("  ", BadPath::Empty),
            ("/etc/passwd", BadPath::Absolute),
            ("~/x", BadPath::Absolute),
            ("src/../x", BadPath::Upward),
            ("a\nb", BadPath::Control),
            (&"x".repeat(MAX_PATH_CHARS + 1), BadPath::TooLong),
        ] {
            assert_eq!(Pattern::parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn hostile_wildcards_cost_no_more_than_their_product() {
        let wild = Pattern::parse(&"*a".repeat(MAX_PATH_CHARS / 2)).unwrap();
        let other = Pattern::parse(&"a*".repeat(MAX_PATH_CHARS / 2 - 1)).unwrap();
        assert!(wild.overlaps(&other));
    }
}

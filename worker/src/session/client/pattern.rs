//! Path patterns as in `.gitignore`: `*` matches anything in a name, `**` anything in a path, `?` one
//! character. A pattern without a slash inside matches a name in any folder. A match includes everything
//! below it.

use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<String>,
    /// Whether the pattern matches a name in any folder.
    anywhere: bool,
}

impl Pattern {
    /// Reads a pattern. Every text is a valid one.
    pub fn new(text: &str) -> Self {
        let text = text.trim_start_matches("./").trim_end_matches('/');
        Self {
            parts: text
                .split('/')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect(),
            anywhere: !text.contains('/'),
        }
    }

    /// Whether the path or one of its parent folders matches.
    pub fn fits(&self, path: &Path) -> bool {
        let path: Vec<String> = path
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .filter(|part| part != "/")
            .collect();
        if self.anywhere {
            return self
                .parts
                .first()
                .is_some_and(|name| path.iter().any(|part| fits_name(name, part)));
        }
        let steps = path.iter().map(|part| move |name: &String| fits_name(name, part));
        fits(&self.parts, |name| name == "**", steps, MatchScope::Beginning)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchScope {
    All,
    /// The pattern may match a prefix of the path.
    Beginning,
}

/// Matches the characters of a name.
fn fits_name(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let steps = name
        .chars()
        .map(|c| move |wanted: &char| *wanted == '?' || *wanted == c);
    fits(&pattern, |wanted| *wanted == '*', steps, MatchScope::All)
}

/// Matches in one pass, without backtracking. `reached[i]` means: the first `i` parts of the pattern match
/// the steps so far.
fn fits<P, F: Fn(&P) -> bool>(
    pattern: &[P],
    is_star: impl Fn(&P) -> bool,
    steps: impl Iterator<Item = F>,
    what: MatchScope,
) -> bool {
    let over_stars = |reached: &mut Vec<bool>| {
        for (at, part) in pattern.iter().enumerate() {
            reached[at + 1] |= reached[at] && is_star(part);
        }
    };
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    over_stars(&mut reached);
    for fits in steps {
        let mut next = vec![false; pattern.len() + 1];
        for (at, part) in pattern.iter().enumerate() {
            if is_star(part) {
                next[at] |= reached[at];
                next[at + 1] |= reached[at];
            } else {
                next[at + 1] |= reached[at] && fits(part);
            }
        }
        over_stars(&mut next);
        reached = next;
        if what == MatchScope::Beginning && reached[pattern.len()] {
            return true;
        }
    }
    what == MatchScope::All && reached[pattern.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_gitignore() {
        let check = |pattern: &str, path: &str, expected| {
            let fits = Pattern::new(pattern).fits(Path::new(path));
            assert_eq!(fits, expected, "{pattern} {path}");
        };
        check("*.lock", "Cargo.lock", true);
        check("*.lock", "deep/in/Cargo.lock", true);
        check("*.lock", "lock", false);
        check("migrations", "migrations/1.sql", true);
        check("migrations/", "a/migrations/1.sql", true);
        check("a/b", "a/b/c/d", true);
        check("a/b", "x/a/b", false);
        check("./a/b", "a/b", true);
        check("a/*.rs", "a/b.rs", true);
        check("a/*.rs", "a/b/c.rs", false);
        check("a/**/c.rs", "a/c.rs", true);
        check("a/**/c.rs", "a/x/y/c.rs", true);
        check("a/**", "a", true);
        check("a/**", "b/a", false);
        check("**", "anything/at/all", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("/etc/hosts", "/etc/hosts", true);
        check("", "a", false);
        check("x/**/y", &"x/".repeat(100_000), false);
        check("*a*a*a*a*a*a*a*a*a*b", &"a".repeat(10_000), false);
    }
}

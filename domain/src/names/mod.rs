//! Names of features and branches: safe in a ref, unique in a repository (SPEC 1). Also derives names from
//! titles, for tasks too.

pub mod repository;

use std::collections::BTreeSet;

use ralph_shared::ids::FeatureId;

/// Longest name of a feature, in characters.
const MAX_NAME: usize = 63;
/// Longest part of a name that comes from a task's title.
const MAX_FROM_TITLE: usize = 40;

/// An invalid name of a feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` can't be a feature's name: {rule}")]
pub struct BadName {
    name: String,
    rule: &'static str,
}

/// The default branch of a feature (DESIGN 6).
pub fn branch(feature: &str) -> String {
    format!("ralph/{feature}")
}

/// Names of branches that git cannot keep beside this branch, since a name cannot be both a folder and a
/// file: `a` and `a/b` for `a/b/c`, the shortest first.
pub fn above(branch: &str) -> impl Iterator<Item = &str> {
    branch.match_indices('/').map(|(at, _)| &branch[..at])
}

/// Why a feature cannot have another feature's branch, or one that git cannot keep beside it, and a remedy.
pub fn branch_taken(branch: &str, existing: &str, owner: &str) -> String {
    if branch != existing {
        return format!(
            "{}, on which the feature `{owner}` lands; choose another with --branch, or, if nobody needs `{owner}`, delete it \
             with `feature delete {owner}`",
            branch_beside(branch, existing)
        );
    }
    format!(
        "the branch `{branch}` is the one on which the feature `{owner}` lands; choose another with --branch, add tasks to \
         `{owner}` with `task create TITLE --feature {owner}`, or, if nobody needs `{owner}`, delete it with `feature delete {owner}`"
    )
}

/// A message that git cannot keep these two branches: the name of one is the beginning of the other's.
pub fn branch_beside(branch: &str, existing: &str) -> String {
    format!("git can't keep a branch `{branch}` beside the branch `{existing}`")
}

/// Whether a feature may have this name.
///
/// # Errors
/// If git or SPEC 1 refuses the name.
pub fn check(name: &str) -> Result<(), BadName> {
    let first = name.bytes().next();
    let fits = (1..=MAX_NAME).contains(&name.len())
        && first.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'));
    if !fits {
        return Err(BadName {
            name: name.to_owned(),
            rule: "use 1 to 63 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or a digit",
        });
    }
    // The name becomes the last part of a ref.
    ralph_shared::branch::check(&branch(name)).map_err(|error| BadName {
        name: name.to_owned(),
        rule: error.rule,
    })
}

/// The name of a feature for one task: a slug of its title, and unique digits.
pub fn for_task(title: &str, id: FeatureId) -> String {
    let slug = slug(title, |c| c.is_ascii_alphanumeric());
    let digits = id.0.simple().to_string().split_off(26);
    if slug.is_empty() {
        format!("task-{digits}")
    } else {
        format!("{slug}-{digits}")
    }
}

/// The default key of a task: a slug of its title.
pub fn key_for(title: &str) -> String {
    let slug = slug(title, char::is_alphanumeric);
    if slug.is_empty() { "task".to_owned() } else { slug }
}

/// This key, or the first free one of `KEY-2`, `KEY-3` and so on.
pub fn free_key(key: &str, taken: &BTreeSet<String>) -> String {
    let mut free = key.to_owned();
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{key}-{number}");
        number += 1;
    }
    free
}

/// The characters of a title that `keeps` accepts, in lower case; `-` replaces other characters between them.
fn slug(title: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut slug = String::new();
    let mut length = 0;
    for c in title.chars().flat_map(char::to_lowercase) {
        match c {
            c if keeps(c) => slug.push(c),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => continue,
        }
        length += 1;
        if length == MAX_FROM_TITLE {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branches_above_a_branch_are_the_folders_of_its_name() {
        let above = |branch| above(branch).collect::<Vec<_>>();
        assert_eq!(above("main"), Vec::<&str>::new());
        assert_eq!(above("ralph/a"), ["ralph"]);
        assert_eq!(above("a/b/c"), ["a", "a/b"]);
    }

    #[test]
    fn names_are_safe_in_a_ref() {
        for good in ["a", "0", "todo", "fix-1.2_x", &"x".repeat(63)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-a",
            ".a",
            "A",
            "a b",
            "a..b",
            "a.",
            "a.lock",
            "a/b",
            "ä",
            &"x".repeat(64),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_title_always_gives_a_name() {
        let id = FeatureId::new();
        let digits = id.0.simple().to_string().split_off(26);
        for (title, expected) in [
            ("Fix the login!", "fix-the-login"),
            ("  --  ", "task"),
            ("Ünïcode & more", "n-code-more"),
            (&"word ".repeat(40), "word-word-word-word-word-word-word-word"),
        ] {
            let name = for_task(title, id);
            assert_eq!(name, format!("{expected}-{digits}"));
            assert_eq!(check(&name), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_title_gives_a_free_key() {
        for (title, expected) in [
            ("Write the tests", "write-the-tests"),
            ("Größe prüfen", "größe-prüfen"),
            ("  -- ", "task"),
            (&"Wörter ".repeat(40), "wörter-wörter-wörter-wörter-wörter-wörte"),
        ] {
            assert_eq!(key_for(title), expected, "{title}");
        }
        let check = |taken: &[&str], expected: &str| {
            let taken = taken.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(free_key("a", &taken), expected, "{taken:?}");
        };
        check(&[], "a");
        check(&["b", "a-2"], "a");
        check(&["a"], "a-2");
        check(&["a", "a-2", "a-4"], "a-3");
    }
}

//! Checks names of a feature's branches: git accepts a valid name, and never reads it as anything but a
//! branch.

/// An invalid name of a branch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` can't be a branch's name: {rule}")]
pub struct BadBranch {
    name: String,
    /// The remedy.
    pub rule: &'static str,
}

/// Beginnings of names that git does not look up among branches, or that Ralph uses itself.
const RESERVED: &[(&str, &str)] = &[
    (
        "refs/",
        "give the branch alone, without `refs/heads/`; tags and other refs are not branches",
    ),
    ("heads/", "git reads `heads/x` as the branch `x`; give `x` alone"),
    (
        "tags/",
        "git reads `tags/x` as the tag `x`; choose a name that begins differently",
    ),
    (
        "remotes/",
        "git reads `remotes/x` as a branch of a remote; choose a name that begins differently",
    ),
    (
        "ralph-attempts/",
        "Ralph keeps attempts there; choose a name that begins differently",
    ),
];

/// Checks that `name` can be a branch (git-check-ref-format), and is no ref, option, refspec or commit for
/// any command of git.
///
/// # Errors
/// If it can't; the text says what to do.
pub fn check(name: &str) -> Result<(), BadBranch> {
    match rule_against(name) {
        None => Ok(()),
        Some(rule) => Err(BadBranch {
            name: name.to_owned(),
            rule,
        }),
    }
}

fn rule_against(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > 200 {
        return Some("use 1 to 200 bytes");
    }
    if name.chars().any(|c| c.is_control() || " ~^:?*[\\".contains(c)) {
        return Some("git allows no spaces, control characters or ~ ^ : ? * [ \\ in it");
    }
    if name.contains("..") || name.contains("@{") || name == "@" {
        return Some("git allows no `..` and no `@{` in it, and reads `@` as HEAD");
    }
    let part_is_bad = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if name.starts_with('-') || name.ends_with('.') || name.split('/').any(part_is_bad) {
        return Some(
            "git allows no `-` at its start, no `.` at its end, and no part that is empty, begins with `.` or ends with `.lock`",
        );
    }
    if name.starts_with('+') {
        return Some("git reads `+` at the start as a forced push; leave it out");
    }
    if name.eq_ignore_ascii_case("head") || name.ends_with("_HEAD") {
        return Some("git has a ref of its own with this name; give the intended branch");
    }
    if matches!(name.len(), 40 | 64) && name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some("git reads it as a commit's id; choose another name");
    }
    let taken = |begin: &str| name.starts_with(begin) || name == begin.trim_end_matches('/');
    RESERVED
        .iter()
        .find(|(begin, _)| taken(begin))
        .map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_reads_a_valid_branch_name_as_nothing_else() {
        for good in [
            "main",
            "team/feature",
            "x@y",
            "a+b",
            "header",
            "my-head",
            "team/heads/x",
            "v1",
            "ü",
            "deadbeef",
            "ralph-attempts-2",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let id = "0123456789abcdefABCDEF0123456789abcdef01";
        let bad = [
            "",
            "/a",
            "a/",
            "a//b",
            "-a",
            "-x",
            "a b",
            "a..b",
            "a@{b",
            "@",
            "a.lock/b",
            "a\\b",
            "a:b",
            "a\u{7f}",
            "a.",
            ".a",
            "a/.b",
            "main^{}",
            "main~1",
            "refs/heads/main",
            "refs/tags/v1",
            "refs",
            "HEAD",
            "head",
            "Head",
            "FETCH_HEAD",
            "ORIG_HEAD",
            "heads/main",
            "heads",
            "tags/v1",
            "remotes/origin/main",
            "+main",
            "+refs/heads/x:refs/heads/y",
            "ralph-attempts/f/t-1/1-d-1",
            "ralph-attempts",
            id,
            "a*",
            "a\n",
        ];
        for bad in bad {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check(&"x".repeat(201)).is_err());
    }
}

//! The invariant part of a failure, which distinguishes a repeated failure from a new one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// Parts that differ from run to run, and their replacements. The order matters: a hash contains numbers, an
/// id contains hashes.
static VARIES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let forms = [
        // Paths, and addresses: from their first sign to the next blank or quote. A line and column go with
        // them.
        (
            r#"(?:\b[A-Za-z]:)?[\w.~+@%-]*(?:/|\\\w)[^\s"'`,;)\]}>]*"#,
            "<path>",
        ),
        (r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "#"),
        (r"(?i)\b0x[0-9a-f]+\b", "#"),
        // A hash has a digit: `defaced` is a word.
        (r"(?i)\b(?:[0-9a-f]*[0-9][0-9a-f]*){1}\b", ""),
        (
            r"(?i)\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|secs?|seconds?|m|min|minutes?|h|hours?)\b",
            "#",
        ),
        (r"\d+", "#"),
    ];
    let read = |(pattern, replacement): (&str, &'static str)| {
        Regex::new(pattern).ok().map(|form| (form, replacement))
    };
    forms.into_iter().filter_map(read).collect()
});

/// Shortest hex word with a digit that counts as a hash.
const HASH_DIGITS: usize = 7;

/// The signature of a failure: the failed thing, and the lines of its text without varying parts. Each line
/// counts once, in sorted order, since parallel work ends in any order.
pub fn signature(what: &str, text: &str) -> String {
    let lines: BTreeSet<String> = text.lines().map(normal).filter(|line| !line.is_empty()).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    ralph_shared::wire::sha256_hex(format!("{what}\n{}", lines.join("\n")).as_bytes())
}

/// A line without its varying parts.
fn normal(line: &str) -> String {
    let mut line = Cow::Borrowed(line);
    for (form, replacement) in VARIES.iter() {
        let replaced = match replacement.is_empty() {
            true => form.replace_all(&line, |found: &regex::Captures<'_>| {
                let word = &found[0];
                if word.len() >= HASH_DIGITS {
                    "#".to_owned()
                } else {
                    word.to_owned()
                }
            }),
            false => form.replace_all(&line, *replacement),
        };
        line = Cow::Owned(replaced.into_owned());
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_ignores_places_times_ids_and_the_order_of_lines() {
        let same = |one: &str, other: &str| {
            assert_eq!(normal(one), normal(other));
            assert_eq!(signature("gate", one), signature("gate", other));
        };
        same(
            "error[E0432]: unresolved import `a::b` --> /tmp/x1/src/lib.rs:12:5",
            "error[E0432]: unresolved import `a::b` --> /home/u/y/src/lib.rs:14:9",
        );
        same("test a::b ... FAILED (0.12s)", "test a::b ... FAILED (980 ms)");
        same("finished in 1.2s", "finished in 3 min");
        same(
            "2026-01-05T13:00:00.123Z request 4c1f9e2a-07be-4a5b-9c1d-2f3e4a5b6c7d refused",
            "2026-02-28T01:02:03.9Z request 0a1b2c3d-1111-2222-3333-444455556666 refused",
        );
        same("commit 9f2c41aa07be is not known", "commit 01234567 is not known");
        same(
            "panicked at 0x7ffe12, thread 41",
            "panicked at 0xdeadbeef, thread 7",
        );
        same("task t-9f2c41aa07be failed", "task t-0123456789ab failed");
        same("see C:\\a\\b.txt now", "see D:\\c\\d.txt now");
        assert_eq!(signature("gate", "b\na\na"), signature("gate", "a\n  b"));
    }

    #[test]
    fn different_failures_have_different_signatures() {
        let differ = |one: &str, other: &str| {
            assert_ne!(signature("gate", one), signature("gate", other), "{one} {other}");
        };
        differ("test a::b ... FAILED", "test a::c ... FAILED");
        differ("cannot find `defaced`", "cannot find `effaced`");
        differ("no such module x", "no such file x");
        assert_ne!(signature("gate", "a"), signature("reported", "a"));
    }
}

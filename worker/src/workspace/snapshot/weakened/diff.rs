//! Parser for the output of `git diff-tree -p`.

#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::workspace::snapshot::weakened) struct FileDiff {
    /// The old path; `None` for a new file.
    pub old: Option<String>,
    /// The new path; `None` for a deleted file.
    pub new: Option<String>,
    pub removed: Vec<String>,
    pub added: Vec<String>,
    /// Unchanged lines, and the context that git shows in a hunk's header.
    pub around: Vec<String>,
    /// Whether git reports only that the file differs.
    pub hidden: bool,
}

/// Lines of a hunk that still follow, by side.
#[derive(Default)]
struct RemainingLines {
    old: usize,
    new: usize,
}

/// The files in the first `most` lines of a diff, whose end may be cut off; and whether there are more lines.
pub(in crate::workspace::snapshot::weakened) fn files(diff: &[u8], most: usize) -> (Vec<FileDiff>, bool) {
    let mut files: Vec<FileDiff> = Vec::new();
    let mut left = RemainingLines::default();
    for (number, line) in diff.split(|byte| *byte == b'\n').enumerate() {
        if number == most {
            return (files, true);
        }
        let line = String::from_utf8_lossy(line);
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if left.old + left.new > 0 {
            if let Some(file) = files.last_mut() {
                take(file, &mut left, line);
            }
        } else if let Some(names) = line.strip_prefix("diff --git ") {
            let path = same_name(names);
            files.push(FileDiff {
                old: path.clone(),
                new: path,
                ..FileDiff::default()
            });
        } else if let Some(file) = files.last_mut() {
            head(file, &mut left, line);
        }
    }
    (files, false)
}

fn take(file: &mut FileDiff, left: &mut RemainingLines, line: &str) {
    let text = |line: &str| line.get(1..).unwrap_or_default().to_owned();
    match line.as_bytes().first() {
        Some(b'-') => {
            left.old = left.old.saturating_sub(1);
            file.removed.push(text(line));
        }
        Some(b'+') => {
            left.new = left.new.saturating_sub(1);
            file.added.push(text(line));
        }
        // "\ No newline at end of file"
        Some(b'\\') => {}
        _ => {
            left.old = left.old.saturating_sub(1);
            left.new = left.new.saturating_sub(1);
            file.around.push(text(line));
        }
    }
}

fn head(file: &mut FileDiff, left: &mut RemainingLines, line: &str) {
    if let Some(path) = line.strip_prefix("rename from ") {
        file.old = Some(name(path));
    } else if let Some(path) = line.strip_prefix("rename to ") {
        file.new = Some(name(path));
    } else if let Some(path) = line.strip_prefix("--- ") {
        file.old = side(path);
    } else if let Some(path) = line.strip_prefix("+++ ") {
        file.new = side(path);
    } else if line.starts_with("deleted file mode ") {
        file.new = None;
    } else if line.starts_with("new file mode ") {
        file.old = None;
    } else if line.starts_with("Binary files ") {
        file.hidden = true;
    } else if let Some(hunk) = line.strip_prefix("@@ ") {
        let (ranges, around) = hunk.split_once(" @@").unwrap_or((hunk, ""));
        let mut ranges = ranges.split(' ').map(count);
        left.old = ranges.next().unwrap_or(0);
        left.new = ranges.next().unwrap_or(0);
        file.around.push(around.trim().to_owned());
    }
}

/// The number of lines in a range such as `-12,3`.
fn count(range: &str) -> usize {
    match range.split_once(',') {
        Some((_, count)) => count.parse().unwrap_or(0),
        None => 1,
    }
}

/// The path of `a/PATH b/PATH`; `None` when both differ, as in a rename, which has lines of its own for them.
fn same_name(names: &str) -> Option<String> {
    if let Some(quoted) = names.strip_prefix('"') {
        let end = quoted.find("\" ")? + 2;
        return side(&names[..end]);
    }
    let middle = names.len() / 2;
    (names.get(middle..=middle)? == " ").then(|| side(&names[..middle]))?
}

/// A path after `a/` or `b/`; `None` for `/dev/null`.
fn side(path: &str) -> Option<String> {
    // Git appends a tab to names with blanks.
    let path = name(path.strip_suffix('\t').unwrap_or(path));
    let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/"))?;
    Some(path.to_owned())
}

/// Decodes a name that git prints, with quotes and escapes if necessary.
fn name(quoted: &str) -> String {
    let Some(inner) = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return quoted.to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            [byte, after @ ..] => {
                bytes.push(match byte {
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                rest = after;
            }
            [] => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_and_renamed_paths_are_parsed() {
        for (line, old, new) in [
            (
                "diff --git a/x y.rs b/x y.rs\ndeleted file mode 100644\n",
                Some("x y.rs"),
                None,
            ),
            (
                "diff --git a/x b/y\nrename from x\nrename to y\n",
                Some("x"),
                Some("y"),
            ),
            (
                "diff --git \"a/gr\\303\\274n\\\"\" \"b/gr\\303\\274n\\\"\"\nnew file mode 100644\n",
                None,
                Some("grün\""),
            ),
            (
                "diff --git a/a b b/a b\n--- a/a b\t\n+++ /dev/null\n",
                Some("a b"),
                None,
            ),
        ] {
            let files = files(line.as_bytes(), 100).0;
            assert_eq!(
                (files[0].old.as_deref(), files[0].new.as_deref()),
                (old, new),
                "{line}"
            );
        }
    }

    #[test]
    fn content_lines_that_look_like_headers_are_content() {
        let diff = "diff --git a/q.sql b/q.sql\n--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@ select\n--- one\n+++ two\n three\n\
                    \\ No newline at end of file\ndiff --git a/p b/p\nBinary files a/p and b/p differ\n";
        let files = files(diff.as_bytes(), 100).0;
        assert_eq!(files.len(), 2);
        assert_eq!(files[0].removed, ["-- one"]);
        assert_eq!(files[0].added, ["++ two"]);
        assert_eq!(files[0].around, ["select", "three"]);
        assert!(files[1].hidden);
    }

    #[test]
    fn malformed_diffs_do_not_panic() {
        for diff in [
            &b""[..],
            b"@@ -1 +1 @@\n-x",
            b"diff --git \n@@ -9,9 +9,9 @@\n\xff\n",
            b"diff --git \"a\n--- \"\\",
        ] {
            let _ = files(diff, 100);
        }
    }
}

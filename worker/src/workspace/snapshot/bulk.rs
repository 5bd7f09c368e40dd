//! New files that hardly belong to the work: very large ones, very many, and build output or caches in
//! folders of known names. They are reported, so that the agent removes them or keeps them on purpose, and
//! the verifier knows about them.

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::wire::{TestChange, TestChangeKind};

use crate::workspace::error::GitError;
use crate::workspace::git::Git;
use crate::workspace::git::raw_diff::raw_changes;

/// Most findings in a report.
const MAX_FINDINGS: usize = 20;

/// Limits above which new files are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkLimits {
    /// Size of a file; no limit when 0. Bytes.
    pub file_bytes: u64,
    /// Files of one attempt; no limit when 0.
    pub files: usize,
    /// Names of folders, wherever they are.
    pub folders: Vec<String>,
}

impl Default for BulkLimits {
    fn default() -> Self {
        let folders = [
            "target",
            "node_modules",
            ".venv",
            "venv",
            "__pycache__",
            ".gradle",
            ".tox",
            ".mypy_cache",
            ".pytest_cache",
            ".ruff_cache",
            ".next",
            ".terraform",
        ];
        Self {
            file_bytes: 20 << 20,
            files: 2_000,
            folders: folders.map(str::to_owned).to_vec(),
        }
    }
}

/// Findings in the files that `new` has and `old` lacks.
pub(in crate::workspace) async fn bulk(git: &Git, old: &str, new: &str) -> Result<Vec<TestChange>, GitError> {
    let limits = &git.environment().bulk;
    let options = [
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--diff-filter=A",
        old,
        new,
    ];
    let raw = git.run("diff-tree").args(options).output().await?;
    let added = added(&raw.stdout);
    let ids: String = added.iter().map(|(id, _)| format!("{id}\n")).collect();
    let sizes = git
        .run("cat-file")
        .args(["--batch-check=%(objectsize)"])
        // The attempt did not create missing objects.
        .variable("GIT_NO_LAZY_FETCH", "1")
        .input(ids)
        .output()
        .await?
        .text();
    let sizes = sizes.lines().map(|size| size.parse().unwrap_or(0));
    let files: Vec<(&str, u64)> = added.iter().map(|(_, path)| path.as_str()).zip(sizes).collect();
    let folders: BTreeSet<&str> = files
        .iter()
        .filter_map(|(path, _)| folder(path, limits))
        .collect();
    let known = match folders.is_empty() {
        true => BTreeSet::new(),
        false => known(git, old, &folders).await?,
    };
    Ok(findings(&files, &known, limits))
}

/// Object id and path of each line of `diff-tree -z --raw`, without submodules.
fn added(raw: &[u8]) -> Vec<(String, String)> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    raw_changes(raw)
        .filter(|change| change.new_mode != b"160000")
        .map(|change| (lossy(change.new), lossy(change.path)))
        .collect()
}

/// The file's outermost folder with one of the known names.
fn folder<'a>(path: &'a str, limits: &BulkLimits) -> Option<&'a str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).find(|above| {
        let name = above.rsplit('/').next().unwrap_or(above);
        limits.folders.iter().any(|folder| folder == name)
    })
}

/// The folders that `old` already has: they belong to the repository.
async fn known(git: &Git, old: &str, folders: &BTreeSet<&str>) -> Result<BTreeSet<String>, GitError> {
    let listed = git
        .run("ls-tree")
        .args(["-d", "-z", "--name-only", "--full-tree", old, "--"])
        .args(folders)
        .output()
        .await?;
    Ok(listed.parts().into_iter().collect())
}

fn findings(files: &[(&str, u64)], known: &BTreeSet<String>, limits: &BulkLimits) -> Vec<TestChange> {
    let mut folders: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    let (mut found, mut others) = (Vec::new(), 0);
    for (path, size) in files {
        match folder(path, limits).filter(|folder| !known.contains(*folder)) {
            Some(folder) => {
                let of = folders.entry(folder).or_default();
                *of = (of.0 + 1, of.1 + size);
            }
            None => {
                others += 1;
                if limits.file_bytes > 0 && *size > limits.file_bytes {
                    found.push(change(path, size_in_words(*size)));
                }
            }
        }
    }
    for (folder, (count, bytes)) in folders {
        found.push(change(
            &format!("{folder}/"),
            format!("{count} file(s), {}", size_in_words(bytes)),
        ));
    }
    if limits.files > 0 && others > limits.files {
        found.push(change(".", format!("{others} new files")));
    }
    found.truncate(MAX_FINDINGS);
    found
}

fn change(path: &str, words: String) -> TestChange {
    TestChange {
        path: path.to_owned(),
        kind: TestChangeKind::Bulk,
        lines: vec![words],
        more: 0,
    }
}

fn size_in_words(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

pub(in crate::workspace) fn in_words(change: &TestChange) -> String {
    format!("`{}` ({})", change.path, change.lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_many_and_build_files_are_found_outside_known_folders() {
        let limits = BulkLimits {
            file_bytes: 1_000_000,
            files: 2,
            ..BulkLimits::default()
        };
        let check = |files: &[(&str, u64)], known: &[&str], expected: &[&str]| {
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            let found: Vec<String> = findings(files, &known, &limits).iter().map(in_words).collect();
            assert_eq!(found, expected, "{files:?}");
        };
        check(&[("src/a.rs", 10), ("target.rs", 10)], &[], &[]);
        check(&[("a.bin", 1_000_000)], &[], &[]);
        check(&[("a.bin", 3_000_000)], &[], &["`a.bin` (3 MB)"]);
        let build = [
            ("x/target/debug/a", 2_000_000),
            ("x/target/b", 1),
            ("node_modules/c/node_modules/d", 9),
        ];
        check(
            &build,
            &[],
            &[
                "`node_modules/` (1 file(s), 1 kB)",
                "`x/target/` (2 file(s), 2 MB)",
            ],
        );
        check(&build[1..2], &["x/target"], &[]);
        check(&[("a", 1), ("b", 1), ("c", 1)], &[], &["`.` (3 new files)"]);
        let none = BulkLimits {
            file_bytes: 0,
            files: 0,
            folders: Vec::new(),
        };
        assert_eq!(
            super::findings(&[("target/a", 1 << 40)], &BTreeSet::new(), &none),
            []
        );
    }
}

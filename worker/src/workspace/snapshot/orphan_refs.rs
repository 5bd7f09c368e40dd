//! Commits that an agent's git directory names besides the `HEAD` of its files. They are read from plain
//! files: no git runs in that directory, and no link is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::gitlinks::{head_in, read};
use crate::workspace::git::address;
use crate::workspace::paths::inside;

/// Most refs that are read.
const REFS: usize = 2_000;
/// Deepest nesting of ref folders.
const DEPTH: usize = 16;
/// The start of a checkout entry in the reflog; the old `HEAD`'s name follows.
const CHECKOUT_PREFIX: &str = "checkout: moving from ";

/// The place that names a commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::workspace) enum RefSource {
    /// A branch name, lossily as UTF-8.
    Branch(String),
    /// A tag name, lossily as UTF-8.
    Tag(String),
    /// A stash entry; 0 is the latest.
    Stash(usize),
    /// A former `HEAD`, or one of another work tree, on no branch; numbered in the order of discovery.
    Detached(usize),
    /// Uncommitted changes of another work tree inside the tree, by its path, lossily as UTF-8.
    WorkTree(String),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::workspace) struct NamedCommits {
    /// The `HEAD` commit of the files. Hex object id, as all.
    pub head: Option<String>,
    pub all: Vec<(RefSource, String)>,
}

/// Reads the git directory in `tree`, skipping everything that is missing or not in git's format.
pub(in crate::workspace) fn named(tree: &Path) -> NamedCommits {
    let Some(dir) = inside(tree, Path::new(".git")) else {
        return NamedCommits::default();
    };
    let mut refs = packed(&dir);
    for folder in ["refs/heads", "refs/tags"] {
        if let Some(path) = inside(&dir, Path::new(folder)) {
            loose(&path, folder, DEPTH, &mut refs);
        }
    }
    let mut all = Vec::new();
    for (name, commit) in refs {
        let place = match (name.strip_prefix("refs/heads/"), name.strip_prefix("refs/tags/")) {
            (Some(branch), _) => RefSource::Branch(branch.to_owned()),
            (_, Some(tag)) => RefSource::Tag(tag.to_owned()),
            _ => continue,
        };
        all.push((place, commit));
    }
    let stash = stash(&dir).into_iter().enumerate();
    all.extend(stash.map(|(number, commit)| (RefSource::Stash(number), commit)));
    let detached = detached(&dir).into_iter().enumerate();
    all.extend(detached.map(|(number, commit)| (RefSource::Detached(number), commit)));
    all.truncate(REFS);
    NamedCommits {
        head: head_in(tree, ""),
        all,
    }
}

fn packed(dir: &Path) -> BTreeMap<String, String> {
    let text = read(&dir.join("packed-refs")).unwrap_or_default();
    let line = |line: &str| {
        let (commit, name) = line.split_once(' ')?;
        address::is_object_id(commit).then(|| (name.to_owned(), commit.to_owned()))
    };
    text.lines().filter_map(line).take(REFS).collect()
}

fn loose(folder: &Path, name: &str, depth: usize, refs: &mut BTreeMap<String, String>) {
    let mut entries: Vec<OsString> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    entries.sort();
    for entry in entries {
        if refs.len() >= REFS {
            return;
        }
        let path = folder.join(&entry);
        let name = format!("{name}/{}", String::from_utf8_lossy(entry.as_bytes()));
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth > 0 => loose(&path, &name, depth - 1, refs),
            Ok(metadata) if metadata.is_file() => {
                if let Some(commit) = object_in(&path) {
                    refs.insert(name, commit);
                }
            }
            _ => {}
        }
    }
}

fn object_in(path: &Path) -> Option<String> {
    let text = read(path)?;
    let id = text.trim();
    address::is_object_id(id).then(|| id.to_owned())
}

/// Stash entries, latest first.
fn stash(dir: &Path) -> Vec<String> {
    let journal = inside(dir, Path::new("logs/refs")).and_then(|folder| read(&folder.join("stash")));
    let last = || inside(dir, Path::new("refs")).and_then(|folder| object_in(&folder.join("stash")));
    let entries = journal.unwrap_or_default();
    let entries: Vec<String> = entries
        .lines()
        .rev()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|id| address::is_object_id(id))
        .map(str::to_owned)
        .collect();
    match entries.is_empty() {
        true => last().into_iter().collect(),
        false => entries,
    }
}

/// Former `HEAD` commits without a branch, latest first, then the detached `HEAD`s of other work trees.
fn detached(dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let journal = inside(dir, Path::new("logs")).and_then(|folder| read(&folder.join("HEAD")));
    for line in journal.unwrap_or_default().lines().rev() {
        let Some((ids, message)) = line.split_once('\t') else {
            continue;
        };
        let from = message
            .strip_prefix(CHECKOUT_PREFIX)
            .and_then(|rest| rest.split(' ').next());
        let id = ids.split(' ').next().filter(|id| address::is_object_id(id));
        if let (true, Some(id)) = (from.is_some_and(address::is_object_id), id) {
            found.push(id.to_owned());
        }
    }
    let trees = inside(dir, Path::new("worktrees")).and_then(|folder| fs::read_dir(folder).ok());
    for tree in trees.into_iter().flatten().flatten().take(REFS) {
        if tree.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(object_in(&tree.path().join("HEAD")));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn id(digit: char) -> String {
        digit.to_string().repeat(40)
    }

    #[test]
    fn a_git_directory_is_read_as_files_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        let git = tree.join(".git");
        for folder in [
            "refs/heads/a",
            "refs/tags",
            "refs/remotes",
            "logs/refs",
            "worktrees/w",
        ] {
            fs::create_dir_all(git.join(folder)).unwrap();
        }
        let outside = dir.path().join("outside");
        fs::write(&outside, id('f')).unwrap();
        symlink(&outside, git.join("refs/heads/link")).unwrap();
        symlink(dir.path(), git.join("refs/heads/folder")).unwrap();
        let zeros = id('0');
        let (a, b, c, d, e) = (id('a'), id('b'), id('c'), id('d'), id('e'));
        let journal = format!(
            "{zeros} {a} T <t@t> 1 +0000\tcommit: one\n\
             {b} {a} T <t@t> 1 +0000\tcheckout: moving from {b} to main\n\
             {c} {a} T <t@t> 1 +0000\tcheckout: moving from main to x\n\
             {d} {a} T <t@t> 1 +0000\tcheckout: moving from {d} to {b}\n\
             {b} {a} T <t@t> 1 +0000\tcheckout: moving from {b} to main\n\
             nonsense\n"
        );
        let files = [
            ("HEAD", "ref: refs/heads/main\n".to_owned()),
            (
                "packed-refs",
                format!(
                    "# pack-refs\n{a} refs/heads/main\n{a} refs/tags/v1\n^{b}\n{a} refs/remotes/origin/x\n"
                ),
            ),
            ("refs/heads/main", format!("{c}\n")),
            ("refs/heads/a/b", d.clone()),
            ("refs/heads/none", "ref: refs/heads/main\n".to_owned()),
            ("logs/refs/stash", format!("{zeros} {a} T\tx\n{a} {b} T\tWIP\n")),
            ("logs/HEAD", journal),
            ("worktrees/w/HEAD", e.clone()),
        ];
        for (name, text) in files {
            fs::write(git.join(name), text).unwrap();
        }
        let branch = |name: &str| RefSource::Branch(name.to_owned());
        let expected = vec![
            (branch("a/b"), d.clone()),
            (branch("main"), c.clone()),
            (RefSource::Tag("v1".to_owned()), a.clone()),
            (RefSource::Stash(0), b.clone()),
            (RefSource::Stash(1), a),
            (RefSource::Detached(0), b),
            (RefSource::Detached(1), d),
            (RefSource::Detached(2), e),
        ];
        let found = named(&tree);
        assert_eq!(found.all, expected);
        assert_eq!(found.head, Some(c));

        // A linked git directory is ignored.
        fs::rename(&git, dir.path().join("git")).unwrap();
        symlink(dir.path().join("git"), &git).unwrap();
        assert_eq!(named(&tree), NamedCommits::default());
    }
}

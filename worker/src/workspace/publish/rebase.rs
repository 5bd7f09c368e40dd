//! Rebases the squashed change of an attempt onto the feature branch's head, without a work tree: a three-way
//! merge of trees. `git merge-tree --write-tree` itself finds the merge base of the attempt's chain and the
//! branch, so git 2.38 or newer is enough.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::workspace::error::GitError;
use crate::workspace::git::Git;
use crate::workspace::snapshot::commit::{REVERT_TRAILER, TASK_TRAILER};

/// Most conflicting paths that are named.
const NAMED_PATHS: usize = 200;
/// Most tasks on the other side that are named.
const NAMED_TASKS: usize = 20;
/// Largest part of the hunks that is shown. Bytes.
const HUNKS_BYTES: usize = 32 << 10;

#[derive(Debug, PartialEq, Eq)]
pub(in crate::workspace) enum Rebased {
    Clean {
        tree: String,
        /// Whether the tree equals the head's.
        empty: bool,
    },
    /// Both sides changed the same lines or files.
    Conflict(Conflict),
}

/// A merge that a person or an agent must resolve.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::workspace) struct Conflict {
    /// The tree with conflict markers in its files.
    pub tree: String,
    /// The conflicting paths, at most [`NAMED_PATHS`].
    pub paths: Vec<Vec<u8>>,
    /// Index entries of all conflicting paths, as lines for `update-index -z --index-info`.
    pub stages: Vec<u8>,
}

/// Merges the change of `commit` into `head`.
///
/// # Errors
/// When git fails, for example because the histories have no common commit.
pub(in crate::workspace) async fn rebase(git: &Git, head: &str, commit: &str) -> Result<Rebased, GitError> {
    let options = ["--write-tree", "-z", "--no-messages", head, commit];
    let merged = git
        .run("merge-tree")
        .args(options)
        // The head's attributes say how files are merged; this git has no work tree to read them from (git
        // 2.41 and newer).
        .variable("GIT_ATTR_SOURCE", head)
        .accept(&[0, 1])
        .output()
        .await?;
    let mut fields = merged.stdout.split(|byte| *byte == 0);
    let tree = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
    if merged.code == 0 {
        let empty = tree == tree_of(git, head).await?;
        return Ok(Rebased::Clean { tree, empty });
    }
    Ok(Rebased::Conflict(Conflict::read(tree, fields)))
}

impl Conflict {
    /// Parses `<mode> <object> <stage>\t<path>`, one entry for each side that has the path.
    fn read<'a>(tree: String, fields: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut paths, mut stages) = (Vec::<Vec<u8>>::new(), Vec::new());
        for field in fields.take_while(|field| !field.is_empty()) {
            let Some(tab) = field.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let path = &field[tab + 1..];
            if paths.last().is_none_or(|last| last != path) {
                // Remove stage 0 before the other stages are added.
                let digits = field[..tab]
                    .split(|byte| *byte == b' ')
                    .nth(1)
                    .map_or(40, <[u8]>::len);
                stages.extend_from_slice(b"0 ");
                stages.extend(std::iter::repeat_n(b'0', digits));
                stages.push(b'\t');
                stages.extend_from_slice(path);
                stages.push(0);
                paths.push(path.to_vec());
            }
            stages.extend_from_slice(field);
            stages.push(0);
        }
        paths.truncate(NAMED_PATHS);
        Self { tree, paths, stages }
    }

    /// The paths, lossily as UTF-8.
    pub(in crate::workspace) fn named(&self) -> Vec<String> {
        let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
        self.paths.iter().map(text).collect()
    }

    /// The conflicting files with conflict markers, as a diff to the head.
    pub(in crate::workspace) async fn hunks(&self, git: &Git, head: &str) -> Result<String, GitError> {
        let options = [
            "-p",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            head,
            &self.tree,
            "--",
        ];
        let diff = git.run("diff-tree").args(options).args(self.literal());
        Ok(diff
            .variable("GIT_LITERAL_PATHSPECS", "1")
            .first_bytes(HUNKS_BYTES)
            .output()
            .await?
            .text())
    }

    /// The tasks whose commits on `head` since the merge base with `commit` changed these paths, newest
    /// first.
    pub(in crate::workspace) async fn others(
        &self,
        git: &Git,
        head: &str,
        commit: &str,
    ) -> Result<Vec<String>, GitError> {
        let format = format!("--format=%(trailers:key={TASK_TRAILER},valueonly,separator=%x00)");
        let since = format!("{commit}..{head}");
        let options = [format.as_str(), "--no-color", "--no-notes", &since, "--"];
        let log = git
            .run("log")
            .args(options)
            .args(self.literal())
            .variable("GIT_LITERAL_PATHSPECS", "1");
        let log = log.output().await?.text();
        let mut tasks = Vec::new();
        for task in log.split(['\0', '\n']).map(str::trim) {
            if !task.is_empty() && !tasks.iter().any(|known| known == task) && tasks.len() < NAMED_TASKS {
                tasks.push(task.to_owned());
            }
        }
        Ok(tasks)
    }

    fn literal(&self) -> impl Iterator<Item = OsString> {
        self.paths.iter().map(|path| OsString::from_vec(path.clone()))
    }
}

/// The paths in which the tree or commit `new` adds one of our conflict markers compared with `old`, lossily
/// as UTF-8. Our markers have whole commit ids, so text that only looks like a marker doesn't match.
pub(in crate::workspace) async fn unresolved(
    git: &Git,
    old: &str,
    new: &str,
) -> Result<Vec<String>, GitError> {
    let options = [
        "-r",
        "-z",
        "--name-only",
        "--no-renames",
        "-G^(<{7}|>{7}) [0-9a-f]{40,64}(:.*)?\r?$",
        old,
        new,
    ];
    let changed = git.run("diff-tree").args(options).output().await?;
    let mut paths = changed.parts();
    paths.truncate(NAMED_PATHS);
    Ok(paths)
}

pub(in crate::workspace) async fn tree_of(git: &Git, commit: &str) -> Result<String, GitError> {
    let tree = format!("{commit}^{{tree}}");
    Ok(git
        .run("rev-parse")
        .args(["--verify", "--quiet", &tree])
        .output()
        .await?
        .word())
}

/// Whether `commit` has the same tree as its first parent.
pub(in crate::workspace) async fn is_empty(git: &Git, commit: &str) -> Result<bool, GitError> {
    let parent = format!("{commit}^");
    let options = ["--quiet", "-r", &parent, commit];
    Ok(git
        .run("diff-tree")
        .args(options)
        .accept(&[0, 1, 128])
        .output()
        .await?
        .code
        == 0)
}

/// Whether an object exists here, named as `git rev-parse` takes it.
pub(in crate::workspace) async fn exists(git: &Git, object: &str) -> Result<bool, GitError> {
    let options = ["-e", object];
    let checked = git.run("cat-file").args(options).accept(&[0, 1, 128]);
    Ok(checked.output().await?.code == 0)
}

/// Whether `old` is `new` or one of its ancestors; `false` for a missing commit.
pub(in crate::workspace) async fn is_ancestor(git: &Git, old: &str, new: &str) -> Result<bool, GitError> {
    let options = ["--is-ancestor", old, new];
    Ok(git
        .run("merge-base")
        .args(options)
        .accept(&[0, 1, 128])
        .output()
        .await?
        .code
        == 0)
}

pub(in crate::workspace) async fn has_commit(git: &Git, commit: &str) -> Result<bool, GitError> {
    is_ancestor(git, commit, commit).await
}

/// The commit in `head`'s history since `base` that landed `task`, unless a later one reverted it.
pub(in crate::workspace) async fn find_landing(
    git: &Git,
    head: &str,
    base: Option<&str>,
    task: &str,
) -> Result<Option<String>, GitError> {
    let values = |key: &str| format!("%(trailers:key={key},valueonly,separator=%x00)");
    let format = format!(
        "--format=%H%x01{}%x01{}",
        values(TASK_TRAILER),
        values(REVERT_TRAILER)
    );
    let since = base.map(|base| format!("^{base}"));
    let options = [format.as_str(), "--no-color", "--no-notes", "--topo-order", head];
    let log = git
        .run("log")
        .args(options)
        .args(since)
        .args(["--"])
        .output()
        .await?
        .text();
    for line in log.lines() {
        let mut fields = line.split('\x01');
        let (Some(commit), Some(landed), Some(reverted)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let names = |values: &str| values.split('\0').any(|value| value == task);
        if names(reverted) {
            return Ok(None);
        }
        if names(landed) {
            return Ok(Some(commit.to_owned()));
        }
    }
    Ok(None)
}

/// Whether a commit in `head`'s history since `commit`, which landed `task`, reverted it.
pub(in crate::workspace) async fn is_reverted(
    git: &Git,
    commit: &str,
    head: &str,
    task: &str,
) -> Result<bool, GitError> {
    let format = format!("--format=%(trailers:key={REVERT_TRAILER},valueonly,separator=%x00)");
    let since = format!("^{commit}");
    let options = [format.as_str(), "--no-color", "--no-notes", head, &since, "--"];
    let log = git.run("log").args(options).output().await?.text();
    Ok(log
        .lines()
        .any(|line| line.split('\0').any(|value| value == task)))
}

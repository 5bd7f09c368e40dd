//! Brings the squashed change of an attempt onto the feature branch's head, without a work tree: a three-way merge of
//! trees whose base is where the attempt's chain left the branch (which `git merge-tree --write-tree` finds itself),
//! so that it works since git 2.38.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::error::GitError;
use super::git::Git;

/// How many conflicting paths are named.
const NAMED_PATHS: usize = 200;
/// How much of the hunks is shown.
const HUNKS_BYTES: usize = 32 << 10;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rebased {
    /// A tree.
    Clean {
        /// Its object id.
        tree: String,
        /// Whether it is the head's own.
        empty: bool,
    },
    /// Both sides changed the same.
    Conflict {
        /// The paths, lossily as UTF-8.
        paths: Vec<String>,
        /// The conflicting files with conflict markers, as a difference to the head.
        hunks: String,
    },
}

/// Merges the change of `commit` into `head`.
///
/// # Errors
/// When git fails, as with histories that have nothing in common.
pub(super) async fn rebase(git: &Git, head: &str, commit: &str) -> Result<Rebased, GitError> {
    let options = ["--write-tree", "-z", "--name-only", "--no-messages", head, commit];
    let merged = git
        .run("merge-tree")
        .args(options)
        .accept(&[0, 1])
        .output()
        .await?;
    let mut fields = merged.stdout.split(|byte| *byte == 0);
    let tree = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
    if merged.code == 0 {
        let empty = tree == tree_of(git, head).await?;
        return Ok(Rebased::Clean { tree, empty });
    }
    let mut paths: Vec<_> = fields
        .take_while(|path| !path.is_empty())
        .take(NAMED_PATHS)
        .collect();
    paths.dedup();
    let literal = paths.iter().map(|path| OsString::from_vec(path.to_vec()));
    let hunks = git
        .run("diff-tree")
        .args([
            "-p",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            head,
            &tree,
            "--",
        ])
        .args(literal)
        .variable("GIT_LITERAL_PATHSPECS", "1")
        .first_bytes(HUNKS_BYTES)
        .output()
        .await?
        .text();
    let paths = paths
        .iter()
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect();
    Ok(Rebased::Conflict { paths, hunks })
}

/// The tree of a commit.
pub(super) async fn tree_of(git: &Git, commit: &str) -> Result<String, GitError> {
    let tree = format!("{commit}^{{tree}}");
    Ok(git
        .run("rev-parse")
        .args(["--verify", "--quiet", &tree])
        .output()
        .await?
        .word())
}

/// Whether `commit` leaves the tree of its first parent as it was.
pub(super) async fn is_empty(git: &Git, commit: &str) -> Result<bool, GitError> {
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

/// Whether `old` is `new` or one of its ancestors. A commit that isn't there is none.
pub(super) async fn is_ancestor(git: &Git, old: &str, new: &str) -> Result<bool, GitError> {
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

/// The commit of `head`'s history since `base` that has the trailer `key: value`, exactly.
pub(super) async fn find_trailer(
    git: &Git,
    head: &str,
    base: Option<&str>,
    key: &str,
    value: &str,
) -> Result<Option<String>, GitError> {
    let format = format!("--format=%H%x00%(trailers:key={key},valueonly,separator=%x00)");
    let since = base.map(|base| format!("^{base}"));
    let options = [format.as_str(), "--no-color", "--no-notes", head];
    let log = git
        .run("log")
        .args(options)
        .args(since)
        .args(["--"])
        .output()
        .await?
        .text();
    let found = log.lines().find_map(|line| {
        let (commit, values) = line.split_once('\0')?;
        values
            .split('\0')
            .any(|found| found == value)
            .then(|| commit.to_owned())
    });
    Ok(found)
}

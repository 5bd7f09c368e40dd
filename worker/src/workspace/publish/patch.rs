//! Compares a rebased commit with the judged patch (DESIGN 6).
//!
//! Most files have the same content before and after on both sides, and need no further look. The others are
//! compared by `git patch-id`, which ignores the position of a change in a file, but not the lines around it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::workspace::error::GitError;
use crate::workspace::git::Git;

/// Larger patches count as different. Bytes.
pub(in crate::workspace) const PATCH_BYTES: usize = 32 << 20;
/// Most files, changed on both sides, that are compared.
const FILES: usize = 2_000;

/// A changed file: its path, and modes, objects and kind of change.
type Change = (Vec<u8>, Vec<u8>);

/// Whether the change of `judged` since its merge base with `onto` equals the change from `onto` to
/// `rebased`.
pub(in crate::workspace) async fn is_same_change(
    git: &Git,
    judged: &str,
    onto: &str,
    rebased: &str,
) -> Result<bool, GitError> {
    let bases = git.run("merge-base").args([onto, judged]).accept(&[0, 1]);
    let base = bases.output().await?.word();
    if base == onto {
        return Ok(true);
    }
    if base.is_empty() {
        return Ok(false);
    }
    let (before, after) = (
        changes(git, &base, judged).await?,
        changes(git, onto, rebased).await?,
    );
    let (old, new): (Vec<&Change>, Vec<&Change>) = (
        before.difference(&after).collect(),
        after.difference(&before).collect(),
    );
    let paths: Vec<&Vec<u8>> = old.iter().map(|(path, _)| path).collect();
    if !paths.iter().copied().eq(new.iter().map(|(path, _)| path)) || paths.len() > FILES {
        return Ok(false);
    }
    if paths.is_empty() {
        return Ok(true);
    }
    let before = patch_id(git, &base, judged, &paths).await?;
    Ok(before.is_some() && before == patch_id(git, onto, rebased, &paths).await?)
}

/// The changes between two commits, by path.
async fn changes(git: &Git, old: &str, new: &str) -> Result<BTreeSet<Change>, GitError> {
    let options = ["-r", "-z", "--raw", "--no-renames", old, new];
    let listed = git.run("diff-tree").args(options).output().await?.stdout;
    let mut fields = listed.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let change = || {
        let what = fields.next()?;
        Some((fields.next()?, what))
    };
    Ok(std::iter::from_fn(change).collect())
}

/// Options for a diff whose patch-id is taken, the same for all compared diffs.
pub(in crate::workspace) const AS_PATCH: [&str; 7] = [
    "-p",
    "-U3",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
];

/// The patch-id of the changes of these paths; of all when `paths` is empty. `None` when the patch is too
/// large.
pub(in crate::workspace) async fn patch_id(
    git: &Git,
    old: &str,
    new: &str,
    paths: &[&Vec<u8>],
) -> Result<Option<String>, GitError> {
    let patch = git
        .run("diff-tree")
        .args(AS_PATCH)
        .args([old, new, "--"])
        .args(paths.iter().map(|path| OsString::from_vec((*path).clone())))
        .variable("GIT_LITERAL_PATHSPECS", "1")
        .first_bytes(PATCH_BYTES + 1)
        .output()
        .await?
        .stdout;
    if patch.len() > PATCH_BYTES {
        return Ok(None);
    }
    let output = git
        .run("patch-id")
        .args(["--stable"])
        .input(patch)
        .output()
        .await?;
    Ok(output.text().split_whitespace().next().map(str::to_owned))
}

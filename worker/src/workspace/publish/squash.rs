//! Whether a branch went into another one without its commits, as hosts do it: squashed into one commit, or rebased. No
//! trailer says so then; git can tell from the patches.

use super::patch::{AS_PATCH, PATCH_BYTES, patch_id};
use super::rebase;
use crate::workspace::error::GitError;
use crate::workspace::git::Git;

/// Commits that are compared, newest first, on either side.
const COMMITS: usize = 300;

/// Whether all that `commit` brings since it left the history of `head` is there as patches: as one, or as one each.
///
/// # Errors
/// When git fails.
pub(in crate::workspace) async fn is_within(git: &Git, commit: &str, head: &str) -> Result<bool, GitError> {
    let there = git
        .run("cat-file")
        .args(["-e", &format!("{commit}^{{commit}}")])
        .accept(&[0, 1, 128])
        .output()
        .await?;
    if there.code != 0 {
        return Ok(false);
    }
    let left = git.run("merge-base").args([head, commit]).accept(&[0, 1]);
    let left = left.output().await?.word();
    if left.is_empty() {
        return Ok(false);
    }
    Ok(as_one(git, &left, commit, head).await? || as_one_each(git, &left, commit, head).await?)
}

async fn as_one(git: &Git, left: &str, commit: &str, head: &str) -> Result<bool, GitError> {
    if rebase::tree_of(git, left).await? == rebase::tree_of(git, commit).await? {
        return Ok(true);
    }
    let Some(whole) = patch_id(git, left, commit, &[]).await? else {
        return Ok(false);
    };
    let most = format!("--max-count={COMMITS}");
    let range = format!("{left}..{head}");
    let options = [
        "--no-merges",
        "--first-parent",
        "--format=%H",
        &most,
        &range,
        "--",
    ];
    let log = git
        .run("log")
        .args(AS_PATCH)
        .args(options)
        .first_bytes(PATCH_BYTES)
        .output();
    let log = log.await?.stdout;
    let ids = git.run("patch-id").args(["--stable"]).input(log).output().await?;
    let ids = ids.text();
    Ok(ids
        .lines()
        .any(|line| line.split_whitespace().next() == Some(whole.as_str())))
}

async fn as_one_each(git: &Git, left: &str, commit: &str, head: &str) -> Result<bool, GitError> {
    let range = format!("{left}..{commit}");
    let listed = git
        .run("rev-list")
        .args(["--parents", &range])
        .output()
        .await?
        .text();
    // What a merge resolved is in no patch.
    let is_line = |line: &str| line.split(' ').count() == 2;
    if listed.lines().count() > COMMITS || !listed.lines().all(is_line) {
        return Ok(false);
    }
    let cherries = git.run("cherry").args([head, commit, left]).output().await?;
    for line in cherries.text().lines() {
        match line.split_once(' ') {
            Some(("-", _)) => {}
            Some((_, one)) if rebase::is_empty(git, one).await? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

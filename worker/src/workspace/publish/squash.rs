//! Detects whether a branch was merged without its commits, as git hosts do: squashed into one commit, or
//! rebased. No trailer records that, but the patches show it.

use super::patch::{AS_PATCH, PATCH_BYTES, patch_id};
use super::rebase;
use crate::workspace::error::GitError;
use crate::workspace::git::Git;

/// Most commits compared on either side, newest first.
const COMMITS: usize = 300;

/// Whether `head` has all changes of `commit` since their merge base: as one patch, or as one patch per
/// commit.
pub(in crate::workspace) async fn is_within(git: &Git, commit: &str, head: &str) -> Result<bool, GitError> {
    if !rebase::exists(git, &format!("{commit}^{{commit}}")).await? {
        return Ok(false);
    }
    let left = git.run("merge-base").args([head, commit]).accept(&[0, 1]);
    let left = left.output().await?.word();
    if left.is_empty() {
        return Ok(false);
    }
    Ok(is_squashed(git, &left, commit, head).await? || is_rebased(git, &left, commit, head).await?)
}

async fn is_squashed(git: &Git, left: &str, commit: &str, head: &str) -> Result<bool, GitError> {
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

async fn is_rebased(git: &Git, left: &str, commit: &str, head: &str) -> Result<bool, GitError> {
    let range = format!("{left}..{commit}");
    let listed = git
        .run("rev-list")
        .args(["--parents", &range])
        .output()
        .await?
        .text();
    // No patch contains the resolutions of a merge.
    let is_no_merge = |line: &str| line.split(' ').count() == 2;
    if listed.lines().count() > COMMITS || !listed.lines().all(is_no_merge) {
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

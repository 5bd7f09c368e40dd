//! What a task's work changed in all, against where it left the feature's branch: what a verifier judges (SPEC 5).

use ralph_shared::at_length::at_length;
use ralph_shared::wire::Change;

use super::bulk;
use super::weakened::{WeakenedTests, weakened};
use crate::workspace::error::GitError;
use crate::workspace::git::Git;

/// How much of a diff is scanned. Bytes.
const MAX_SCANNED_BYTES: usize = 16 << 20;
/// How much of it is reported. Bytes.
const MAX_REPORTED_BYTES: usize = 24 << 10;

/// The change from where `start` and `branch` parted to `commit`, which may be none: a verifier has to know that as well. `branch` is the feature
/// branch's head as it was when the work began, or what it begins from; `gate` are the commands of the gate.
///
/// # Errors
/// When git fails.
pub(in crate::workspace) async fn change(
    git: &Git,
    branch: Option<&str>,
    start: &str,
    commit: &str,
    gate: &[String],
) -> Result<Change, GitError> {
    let base = match branch {
        Some(branch) if branch != start => parted(git, branch, start).await?,
        _ => start.to_owned(),
    };
    let printed = git
        .run("diff-tree")
        .args([
            "-r",
            "-p",
            "-M",
            "--full-index",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ])
        .args([base.as_str(), commit])
        .first_bytes(MAX_SCANNED_BYTES)
        .output()
        .await?
        .stdout;
    let WeakenedTests {
        mut tests,
        more,
        unread,
    } = at_length(|| weakened(&printed, gate));
    tests.extend(bulk::bulk(git, &base, commit).await?);
    tests.sort_by_key(|test| test.kind);
    let cut = printed.len() > MAX_REPORTED_BYTES;
    let told = &printed[..printed.len().min(MAX_REPORTED_BYTES)];
    // A line is told whole or not at all.
    let end = match cut {
        true => told
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(told.len(), |at| at + 1),
        false => told.len(),
    };
    Ok(Change {
        diff: String::from_utf8_lossy(&told[..end]).replace('\0', "\u{fffd}"),
        diff_cut: cut,
        tests,
        tests_more: more,
        tests_unread: unread || printed.len() >= MAX_SCANNED_BYTES,
        base,
    })
}

/// Where two histories parted; the start itself where none is known, as with a short history.
async fn parted(git: &Git, branch: &str, start: &str) -> Result<String, GitError> {
    let base = git
        .run("merge-base")
        .args([branch, start])
        .accept(&[0, 1])
        .output()
        .await?;
    Ok(if base.code == 0 {
        base.word()
    } else {
        start.to_owned()
    })
}

//! The whole change of a task's work since it left the feature's branch, for a verifier (SPEC 5).

use ralph_shared::at_length::at_length;
use ralph_shared::wire::Change;

use super::bulk;
use super::weakened::{WeakenedTests, weakened};
use crate::workspace::error::GitError;
use crate::workspace::git::Git;

/// Largest part of a diff that is scanned. Bytes.
const MAX_SCANNED_BYTES: usize = 16 << 20;
/// Largest part of a diff that is reported. Bytes.
const MAX_REPORTED_BYTES: usize = 24 << 10;

/// The change from the merge base of `start` and `branch` to `commit`. It can be empty; a verifier has to
/// know that too. `branch` is the feature branch's head at the start of the work, or the commit that the
/// branch begins from. `gate` holds the commands of the gate.
pub(in crate::workspace) async fn change(
    git: &Git,
    branch: Option<&str>,
    start: &str,
    commit: &str,
    gate: &[String],
) -> Result<Change, GitError> {
    let base = match branch {
        Some(branch) if branch != start => merge_base(git, branch, start).await?,
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
    let shown = &printed[..printed.len().min(MAX_REPORTED_BYTES)];
    // Report only whole lines.
    let end = match cut {
        true => shown
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(shown.len(), |at| at + 1),
        false => shown.len(),
    };
    Ok(Change {
        diff: String::from_utf8_lossy(&shown[..end]).replace('\0', "\u{fffd}"),
        diff_cut: cut,
        tests,
        tests_more: more,
        tests_unread: unread || printed.len() >= MAX_SCANNED_BYTES,
        base,
    })
}

/// The merge base of both; `start` where none is known, as in a short history.
async fn merge_base(git: &Git, branch: &str, start: &str) -> Result<String, GitError> {
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

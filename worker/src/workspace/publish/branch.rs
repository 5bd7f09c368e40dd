//! Checks that the feature's branch is what the coordinator expects. A branch that was deleted or moved back
//! lacks landed work: landing on it would lose that work, although its tasks stay done. A branch that exists
//! before anything landed belongs to somebody else.

use ralph_shared::wire::GitOrder;

use super::rebase;
use super::squash;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::git::address;
use crate::workspace::snapshot::commit::TASK_TRAILER;
use crate::workspace::workspaces;

/// The trailer of a squashed commit with the merged head of a feature's branch.
pub(in crate::workspace) const MERGES_TRAILER: &str = "Ralph-Merges";
/// Most squashed commits that are examined, newest first.
const SQUASHED: usize = 100;
/// Most commits that mention a task that are examined, newest first.
const LANDINGS: usize = 100;
/// Longest shown part of a task id from a commit; a real id has 14. Characters.
const TASK_CHARS: usize = 40;

/// Why work must not continue on the feature's branch, which is at `head`, with advice; `None` when it may.
/// `base` is the feature's base, if known.
pub(in crate::workspace) async fn objection(
    git: &Git,
    order: &GitOrder,
    head: Option<&str>,
    base: Option<&str>,
) -> Result<Option<String>, GitError> {
    let (branch, name) = (&order.feature_branch, &workspaces::feature_ref(order));
    let address = address::public(&order.repository.address);
    Ok(match (&order.landed, head) {
        (None, None) => None,
        (None, Some(head)) => {
            if head == order.base || rebase::is_ancestor(git, head, &order.base).await? {
                None
            } else if let Some((commit, task)) = last_landing(git, head, base).await? {
                Some(format!(
                    "`{branch}` is at {head} in {address}, with work that Ralph landed ({task} as {commit}), but the \
                     coordinator knows no landing of this feature: its database was restored from a backup, or the branch \
                     belongs to another feature. Keep the branch. If {task} belongs to this feature, run it again, so that \
                     Ralph finds its landing, then retry this task; otherwise submit the feature with another `--branch`, \
                     and with `--base {branch}` to continue from the landed work"
                ))
            } else {
                Some(format!(
                    "`{branch}` is at {head} in {address}, but nothing of this feature has landed yet, so the branch belongs to \
                    somebody else: submit the feature with another `--branch`, or, if nobody needs that branch, remove it \
                     (`git push {address} :{name}`), then retry this task"
                ))
            }
        }
        (Some(landed), Some(head)) => {
            let task = landed.task.to_string();
            let has_it = contains(git, &landed.commit, head).await?
                || rebase::find_landing(git, head, base, &task).await?.is_some();
            (!has_it).then(|| {
                let commit = &landed.commit;
                format!(
                    "`{branch}` is at {head} in {address}, without {commit}, which landed on it: somebody moved the branch. \
                    Merge that commit into it (`git fetch {address} {commit}`, `git merge {commit}`; `-s ours` leaves the \
                    landed changes out), push, then retry this task"
                )
            })
        }
        (Some(landed), None) => (!went_into(git, &landed.commit, &order.base).await?).then(|| {
            let commit = &landed.commit;
            format!(
                "`{branch}` is not in {address} any more, although {commit} landed on it. Restore it (`git fetch {address} \
                {commit}`, `git push {address} {commit}:{name}`), or, if it was merged into the feature's base, run \
                `feature update`; then retry this task"
            )
        }),
    })
}

/// The commit that landed the order's task without the coordinator's knowledge. Without one, checks whether
/// work may begin: not on somebody else's branch. Other landings of Ralph on the branch are found when their
/// tasks run.
///
/// # Errors
/// When the branch belongs to somebody else, or git fails.
pub(in crate::workspace) async fn landed_before(
    git: &Git,
    order: &GitOrder,
    head: &str,
    base: Option<&str>,
) -> Result<Option<String>, WorkspaceError> {
    if head == order.base {
        return Ok(None);
    }
    if let Some(task) = order.trailers.get(TASK_TRAILER)
        && let Some(commit) = rebase::find_landing(git, head, base, task).await?
    {
        return Ok(Some(commit));
    }
    if order.landed.is_none()
        && last_landing(git, head, base).await?.is_none()
        && let Some(why) = objection(git, order, Some(head), base).await?
    {
        return Err(WorkspaceError::NotOurs(why));
    }
    Ok(None)
}

/// The newest commit in `head`'s history since `base` that landed a task of any feature, and that task's id.
async fn last_landing(
    git: &Git,
    head: &str,
    base: Option<&str>,
) -> Result<Option<(String, String)>, GitError> {
    let format = format!("--format=%H%x01%(trailers:key={TASK_TRAILER},valueonly,separator=%x00)");
    let most = format!("--max-count={LANDINGS}");
    let mention = format!("--grep=^{TASK_TRAILER}: ");
    let since = base.map(|base| format!("^{base}"));
    let options = [format.as_str(), &most, &mention, "--no-color", "--no-notes", head];
    let log = git.run("log").args(options).args(since).args(["--"]);
    let log = log.output().await?.text();
    Ok(log.lines().find_map(|line| {
        let (commit, tasks) = line.split_once('\x01')?;
        let task = tasks.split('\0').map(str::trim).find(|task| !task.is_empty())?;
        // Anybody who made that branch could have written the id.
        Some((commit.to_owned(), task.chars().take(TASK_CHARS).collect()))
    }))
}

/// Whether `commit` is in the history of `head`, itself or squashed.
pub(in crate::workspace) async fn contains(git: &Git, commit: &str, head: &str) -> Result<bool, GitError> {
    if commit == head || rebase::is_ancestor(git, commit, head).await? {
        return Ok(true);
    }
    let mention = format!("--grep={MERGES_TRAILER}: {commit}");
    let options = ["-1", "--format=%H", "--fixed-strings", &mention, head, "--"];
    let found = git.run("log").args(options).accept(&[0, 128]).output().await?;
    Ok(!found.stdout.is_empty())
}

/// Whether a deleted branch, last at `commit`, was merged into `head`: directly, or as its patches, if a host
/// squashed or rebased it.
pub(in crate::workspace) async fn went_into(git: &Git, commit: &str, head: &str) -> Result<bool, GitError> {
    Ok(contains(git, commit, head).await? || squash::is_within(git, commit, head).await?)
}

/// The newest commit of the feature's branch, now at `head`, that a squashed commit brought into `onto` since
/// `base`.
pub(in crate::workspace) async fn squashed(
    git: &Git,
    onto: &str,
    base: &str,
    head: &str,
) -> Result<Option<String>, GitError> {
    let format = format!("--format=%(trailers:key={MERGES_TRAILER},valueonly,separator=%x00)");
    let since = format!("^{base}");
    let options = [format.as_str(), "--no-color", "--no-notes", onto, &since, "--"];
    let log = git
        .run("log")
        .args(options)
        .accept(&[0, 128])
        .output()
        .await?
        .text();
    let brought = log.split(['\0', '\n']).map(str::trim);
    for commit in brought.filter(|id| address::is_object_id(id)).take(SQUASHED) {
        if rebase::is_ancestor(git, commit, head).await? {
            return Ok(Some(commit.to_owned()));
        }
    }
    Ok(None)
}

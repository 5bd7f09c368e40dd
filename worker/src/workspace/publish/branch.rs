//! Whether the feature's branch is still what the coordinator takes it for. A branch that was deleted or moved back lacks
//! what landed on it: what lands without that would lose it, though its tasks stay done. A branch that is there before
//! anything landed is somebody else's.

use ralph_shared::wire::GitOrder;

use super::rebase;
use super::squash;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::git::address;
use crate::workspace::snapshot::commit::TASK_TRAILER;
use crate::workspace::workspaces;

/// The trailer of a squashed commit that says which head of a feature's branch it brings.
pub(in crate::workspace) const MERGES_TRAILER: &str = "Ralph-Merges";
/// How many squashed commits are looked at, newest first.
const SQUASHED: usize = 100;
/// How many commits are looked at that mention a task, newest first.
const LANDINGS: usize = 100;
/// What is shown of a task's id that stands in a commit. Characters; an id has 14.
const TASK_CHARS: usize = 40;

/// Why the feature's branch, which is at `head`, must not be built on, and what to do; `None` when it may. `base` is what
/// is known of the feature's base.
///
/// # Errors
/// When git fails.
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
                    "`{branch}` is at {head} in {address}, with work that Ralph landed ({task} as {commit}), though nothing \
                     of this feature has landed as far as the coordinator knows: its database was restored from a backup, \
                     or the branch is another feature's. Keep the branch. Where {task} is this feature's, let it run again: \
                     it is found there, and then retry this task; else submit the feature with another `--branch`, and with \
                     `--base {branch}` to go on from what landed"
                ))
            } else {
                Some(format!(
                    "`{branch}` is at {head} in {address}, though nothing of this feature has landed yet, so it is not the \
                     feature's: submit the feature with another `--branch`, or, where nobody needs that one, remove it \
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
                    "`{branch}` is at {head} in {address}, without {commit}, which landed on it: somebody moved it. Merge \
                     that commit into it (`git fetch {address} {commit}`, `git merge {commit}`; with `-s ours` what \
                     landed stays out), push, then retry this task"
                )
            })
        }
        (Some(landed), None) => (!went_into(git, &landed.commit, &order.base).await?).then(|| {
            let commit = &landed.commit;
            format!(
                "`{branch}` is not in {address} any more, though {commit} landed on it. Bring it back (`git fetch {address} \
                 {commit}`, `git push {address} {commit}:{name}`), or, where it was merged into the feature's base, \
                 `feature update`; then retry this task"
            )
        }),
    })
}

/// The commit by which the task of `order` landed, of which the coordinator doesn't know; without it, whether work may begin: not for a
/// branch that is somebody else's. What Ralph landed on it is found again when its tasks run.
///
/// # Errors
/// When the branch isn't the feature's, or git fails.
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

/// The newest commit of `head`'s history since `base` that landed a task of whatever feature, and which task.
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
        // Whoever made that branch wrote it.
        Some((commit.to_owned(), task.chars().take(TASK_CHARS).collect()))
    }))
}

/// Whether `commit` is in the history of `head`, as it is or squashed.
///
/// # Errors
/// When git fails.
pub(in crate::workspace) async fn contains(git: &Git, commit: &str, head: &str) -> Result<bool, GitError> {
    if rebase::is_ancestor(git, commit, head).await? {
        return Ok(true);
    }
    let mention = format!("--grep={MERGES_TRAILER}: {commit}");
    let options = ["-1", "--format=%H", "--fixed-strings", &mention, head, "--"];
    let found = git.run("log").args(options).accept(&[0, 128]).output().await?;
    Ok(!found.stdout.is_empty())
}

/// Whether a branch that is not there any more, and was at `commit` last, went into `head`: merged, or as its patches, where
/// a host squashed or rebased it.
///
/// # Errors
/// When git fails.
pub(in crate::workspace) async fn went_into(git: &Git, commit: &str, head: &str) -> Result<bool, GitError> {
    Ok(contains(git, commit, head).await? || squash::is_within(git, commit, head).await?)
}

/// The newest state of the feature's branch, now at `head`, that a squashed commit brought into `onto` since `base`.
///
/// # Errors
/// When git fails.
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

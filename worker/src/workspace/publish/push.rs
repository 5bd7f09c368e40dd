//! Pushes one commit to one ref. A push is never forced: each one names the ref's expected old commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ralph_shared::attempts::{self, BRANCHES, REFS};

use crate::workspace::clone::gitdir;
use crate::workspace::error::GitError;
use crate::workspace::git::address;
use crate::workspace::git::trouble::Trouble;
use crate::workspace::git::{Git, REMOTE};

/// Most tries of a push with a temporary failure.
pub(in crate::workspace) const PUSH_TRIES: u32 = 4;

/// The pause after the `n`-th try, n from 1: 0.2 s, 0.8 s, 3.2 s.
pub(in crate::workspace) fn pause(tries: u32) -> Duration {
    Duration::from_millis(200 * 4_u64.pow(tries.saturating_sub(1).min(3)))
}

/// Pushes `commit` to `name` (a whole ref name) if the ref is at `expected` (`None`: if it doesn't exist). A
/// ref that is already at `commit` is fine.
///
/// # Errors
/// When git reports a failure; the ref may have moved anyway.
pub(in crate::workspace) async fn push_once(
    git: &Git,
    commit: &str,
    name: &str,
    expected: Option<&str>,
) -> Result<(), GitError> {
    let lease = format!("--force-with-lease={name}:{}", expected.unwrap_or_default());
    let refspec = format!("{commit}:{name}");
    git.run("push")
        .args(["--porcelain", "--no-verify", &lease])
        .args(receiver(git, name).await)
        .args([REMOTE, &refspec])
        .remote()
        .output()
        .await?;
    Ok(())
}

/// The option that says how a repository on this machine receives a push; `None` for other repositories.
async fn receiver(git: &Git, name: &str) -> Option<String> {
    let address = git.address();
    if !address::is_local(address) {
        return None;
    }
    let path = Path::new(address.strip_prefix("file://").unwrap_or(address));
    let dir = Some(path.join(".git")).filter(|dir| dir.exists());
    let dir = dir.unwrap_or_else(|| path.to_owned());
    // Git reads each ref that it shows several times. Without this, every attempt would make later pushes
    // slower. Git may still reuse the objects of the task's own attempts.
    let mut settings = [REFS, BRANCHES]
        .map(|folder| format!("transfer.hideRefs={folder}"))
        .to_vec();
    settings.extend(git.attempts().map(|own| format!("transfer.hideRefs=!{own}")));
    if gitdir::lender(&dir).is_none() {
        // Git would list the repository's own refs once more, as those of a lender of objects.
        settings.push("core.alternateRefsCommand=true".to_owned());
    }
    if attempts::below(name).is_none() && !has_setting(git, &dir, "receive.denyCurrentBranch").await {
        // An unmodified checkout follows its checked-out branch; git would otherwise refuse the push.
        settings.push("receive.denyCurrentBranch=updateInstead".to_owned());
    }
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let words = ["git"].into_iter().chain(settings).chain(["receive-pack"]);
    Some(format!("--receive-pack={}", shell_words::join(words)))
}

async fn has_setting(git: &Git, dir: &Path, key: &str) -> bool {
    let value = git.run("config").args(["--get", key]).variable("GIT_DIR", dir);
    let value = value.accept(&[0, 1]).output().await;
    value.is_ok_and(|value| value.code == 0)
}

/// The current commit of `name` at the remote.
pub(in crate::workspace) async fn look_up(git: &Git, name: &str) -> Result<Option<String>, GitError> {
    let output = git
        .run("ls-remote")
        .args([REMOTE, name])
        .remote()
        .output()
        .await?
        .text();
    let found = output
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find(|(_, found)| *found == name);
    Ok(found.map(|(id, _)| id.to_owned()))
}

/// Creates `name` at `commit`. Looks up the ref after a failed push.
///
/// # Errors
/// When the ref is at another commit, or the remote refuses or can't be reached after [`PUSH_TRIES`].
pub(in crate::workspace) async fn create(git: &Git, commit: &str, name: &str) -> Result<(), GitError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let Err(error) = push_once(git, commit, name, None).await else {
            return Ok(());
        };
        match look_up(git, name).await {
            Ok(Some(found)) if found == commit => return Ok(()),
            Ok(Some(found)) => {
                let words =
                    format!("{name} is at {found} already, which is not {commit}; it is left as it is");
                return Err(GitError {
                    trouble: Trouble::Declined,
                    words,
                    ..error
                });
            }
            Ok(None) | Err(_) if tries < PUSH_TRIES && error.trouble.retry_can_help() => {
                tokio::time::sleep(pause(tries)).await;
            }
            Ok(None) | Err(_) => return Err(outside_heads(error, name)),
        }
    }
}

/// Creates refs (commit and whole name) in the ref folder `prefix`, as [`create`] does with one. Returns the
/// refs that could not be created, with the errors.
pub(in crate::workspace) async fn create_all(
    git: &Git,
    refs: &[(String, String)],
    prefix: &str,
) -> BTreeMap<String, GitError> {
    let mut left: Vec<&(String, String)> = refs.iter().collect();
    let mut tries = 0;
    while !left.is_empty() {
        tries += 1;
        let Err(error) = push_all(git, &left, prefix).await else {
            break;
        };
        if let Ok(there) = look_up_all(git, prefix).await {
            left.retain(|(commit, name)| there.get(name) != Some(commit));
        }
        if tries >= PUSH_TRIES || !error.trouble.retry_can_help() {
            return left
                .into_iter()
                .map(|(_, name)| (name.clone(), outside_heads(error.clone(), name)))
                .collect();
        }
        tokio::time::sleep(pause(tries)).await;
    }
    BTreeMap::new()
}

/// Some servers accept only branches and tags.
fn outside_heads(error: GitError, name: &str) -> GitError {
    match error.trouble {
        Trouble::Declined if name.starts_with(REFS) => GitError {
            trouble: Trouble::DeclinedOutside,
            ..error
        },
        _ => error,
    }
}

async fn push_all(git: &Git, refs: &[&(String, String)], prefix: &str) -> Result<(), GitError> {
    let leases = refs.iter().map(|(_, name)| format!("--force-with-lease={name}:"));
    let refspecs = refs.iter().map(|(commit, name)| format!("{commit}:{name}"));
    git.run("push")
        .args(["--porcelain", "--no-verify"])
        .args(receiver(git, prefix).await)
        .args(leases)
        .args([REMOTE])
        .args(refspecs)
        .remote()
        .output()
        .await?;
    Ok(())
}

/// The remote's refs in the folder `prefix`, with their commits.
async fn look_up_all(git: &Git, prefix: &str) -> Result<BTreeMap<String, String>, GitError> {
    let listed = git
        .run("ls-remote")
        .args([REMOTE, &format!("{prefix}*")])
        .remote()
        .output()
        .await?;
    listed.must_be_whole("ls-remote")?;
    let refs = listed.text();
    let refs = refs.lines().filter_map(|line| line.split_once('\t'));
    Ok(refs.map(|(id, name)| (name.to_owned(), id.to_owned())).collect())
}

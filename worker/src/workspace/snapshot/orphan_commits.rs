//! Commits of an agent that its final files don't build on. They are pushed to refs beside the attempt's own.
//!
//! Only the object files of the agent's clone are hard-linked into a git directory of the worker's. The
//! clone's configuration, hooks and alternates are ignored, so nothing of it runs, and no objects of another
//! repository are pushed. Commits below the final files are steps towards the attempt's commit, and are not
//! pushed separately.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use ralph_shared::at_length::at_length;
use ralph_shared::wire::{OrphanRef, orphan_refs};

use super::modes::remove_tree;
use crate::workspace::clone::gitdir::{self, Head, ObjectFormat};
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::git::address;
use crate::workspace::paths::inside;
use crate::workspace::publish::push;
use crate::workspace::publish::rebase;
use crate::workspace::record::Folders;
use crate::workspace::snapshot::orphan_refs::{NamedCommits, RefSource, named};
use crate::workspace::snapshot::worktrees::{self, MovedWorktree};

/// Most orphan commits pushed per attempt.
const MAX_ORPHANS: usize = 50;
/// Largest packed size of all their new objects. Bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Longest time to compute the new objects.
const MAX_TIME: Duration = Duration::from_secs(5 * 60);
/// Most commits that are checked.
const MAX_COMMITS: usize = 400;
/// Most object files that are linked.
const MAX_FILES: usize = 200_000;
/// Longest name from an agent that becomes part of a ref name. Bytes.
const NAME_BYTES: usize = 120;

impl RefSource {
    fn what(&self) -> String {
        match self {
            Self::Branch(name) => format!("branch {name}"),
            Self::Tag(name) => format!("tag {name}"),
            Self::Stash(number) => format!("stash {number}"),
            Self::Detached(_) => "detached HEAD".to_owned(),
            Self::WorkTree(path) => format!("work tree {path}"),
        }
    }

    /// The ref for the commit, beside `attempt_ref`. Uses `index` where the commit's own name is no valid ref
    /// name.
    fn name(&self, attempt_ref: &str, index: usize) -> String {
        let (folder, own) = match self {
            Self::Branch(name) => ("branches", name.clone()),
            Self::Tag(name) => ("tags", name.clone()),
            Self::Stash(number) => ("stashes", number.to_string()),
            Self::Detached(number) => ("detached", number.to_string()),
            Self::WorkTree(path) => ("worktrees", path.rsplit('/').next().unwrap_or(path).to_owned()),
        };
        let folder = format!("{}{folder}", orphan_refs(attempt_ref));
        let name = format!("{folder}/{own}");
        let usable = own.len() <= NAME_BYTES && address::is_ref(&name) && !own.contains('\u{fffd}');
        match usable {
            true => name,
            false => format!("{folder}-unnamed/{index}"),
        }
    }
}

/// The attempt that the agent's commits are compared with.
pub(in crate::workspace) struct Attempt<'a> {
    /// Whole ref name.
    pub name: &'a str,
    /// Hex object id, as all.
    pub commit: &'a str,
    pub start: &'a str,
    /// Commits known to be at the remote.
    pub known: Vec<&'a str>,
}

/// Pushes the commits of the agent's clone in `git`'s work tree that the attempt lacks. A failed one holds an
/// error, and waits only if the failure may be temporary: a refusal by a rule of the server would otherwise
/// keep the workspace for ever.
pub(in crate::workspace) async fn push(
    git: &Git,
    attempt: &Attempt<'_>,
    folders: &Folders,
) -> Vec<OrphanRef> {
    let named = named(&folders.tree());
    let is_known = |commit: &str| {
        commit == attempt.start
            || commit == attempt.commit
            || attempt.known.contains(&commit)
            || named.head.as_deref() == Some(commit)
    };
    let mut candidates: Vec<&(RefSource, String)> =
        named.all.iter().filter(|(_, commit)| !is_known(commit)).collect();
    candidates.truncate(MAX_COMMITS);
    let linked = worktree_parents(attempt, folders, &named);
    if candidates.is_empty() && linked.is_empty() {
        return Vec::new();
    }
    match push_orphans(git, attempt, folders, &named, &candidates, &linked).await {
        Ok(strays) => strays,
        Err(error) => {
            tracing::warn!(%error, "failed to read commits that an agent left beside its work");
            let waits = waits(&error);
            let trees: Vec<_> = linked
                .iter()
                .map(|(linked, parent)| place(linked, parent))
                .collect();
            let all = candidates.into_iter().chain(&trees).take(MAX_ORPHANS);
            let kept = |(place, commit): &(RefSource, String)| OrphanRef {
                waits,
                ..orphan(place, commit, Some(error.to_string()))
            };
            all.map(kept).collect()
        }
    }
}

/// The moved work trees, each with its base commit as far as known.
fn worktree_parents(
    attempt: &Attempt<'_>,
    folders: &Folders,
    named: &NamedCommits,
) -> Vec<(MovedWorktree, String)> {
    let parent = |linked: &MovedWorktree| {
        let is_branch = |place: &RefSource| matches!(place, RefSource::Branch(name) if Some(name.as_str()) == linked.branch());
        let branch = named.all.iter().find(|(place, _)| is_branch(place));
        let commit = branch.map(|(_, commit)| commit.as_str()).or(linked.detached());
        commit.unwrap_or(attempt.start).to_owned()
    };
    let all = worktrees::of(folders).into_iter().take(MAX_ORPHANS);
    all.map(|linked| {
        let parent = parent(&linked);
        (linked, parent)
    })
    .collect()
}

fn place(linked: &MovedWorktree, commit: &str) -> (RefSource, String) {
    (RefSource::WorkTree(linked.path.clone()), commit.to_owned())
}

/// Whether a failed check is worth another try.
fn waits(error: &WorkspaceError) -> bool {
    error.is_away() || matches!(error, WorkspaceError::Io { .. } | WorkspaceError::Busy { .. })
}

fn orphan(place: &RefSource, commit: &str, error: Option<String>) -> OrphanRef {
    OrphanRef {
        what: place.what(),
        commit: commit.to_owned(),
        pushed_ref: None,
        error,
        waits: false,
    }
}

/// The orphan commits, and those of them to push.
#[derive(Default)]
struct OrphanSet {
    strays: Vec<OrphanRef>,
    /// Commits to push, with their refs (whole names).
    to_push: Vec<(String, String)>,
    /// Index in `strays` of each of these refs.
    of: BTreeMap<String, usize>,
}

async fn push_orphans(
    git: &Git,
    attempt: &Attempt<'_>,
    folders: &Folders,
    named: &NamedCommits,
    candidates: &[&(RefSource, String)],
    linked: &[(MovedWorktree, String)],
) -> Result<Vec<OrphanRef>, WorkspaceError> {
    let dir = folders.orphans();
    at_length(|| link_objects(git, attempt.start, folders, &dir))
        .map_err(WorkspaceError::io("link objects into", &dir))?;
    let aside = git.at(dir);
    let head = named.head.as_deref();
    let whole = rebase::tree_of(git, attempt.commit).await?;
    let mut trees = Vec::new();
    let mut failed = Vec::new();
    for (linked, parent) in linked {
        match linked.commit(&aside, parent).await {
            Ok(commit) => trees.extend(commit.map(|commit| place(linked, &commit))),
            Err(error) => {
                let (place, commit) = place(linked, parent);
                failed.push(OrphanRef {
                    waits: waits(&error),
                    ..orphan(&place, &commit, Some(error.to_string()))
                });
            }
        }
    }
    let candidates: Vec<&(RefSource, String)> = candidates.iter().copied().chain(&trees).collect();
    let named = candidates.as_slice();
    let sorted = tokio::time::timeout(MAX_TIME, sort(&aside, attempt, &whole, head, named));
    let OrphanSet {
        mut strays,
        to_push,
        of,
    } = match sorted.await {
        Ok(found) => found?,
        Err(_) => {
            let limit = MAX_TIME.as_secs();
            let why = || format!("comparing the commits took over {limit} s");
            let all = named.iter().take(MAX_ORPHANS);
            let timed_out = all.map(|(place, commit)| orphan(place, commit, Some(why())));
            return Ok(timed_out.chain(failed).collect());
        }
    };
    let refused = push::create_all(&aside, &to_push, &orphan_refs(attempt.name)).await;
    for (name, index) in of {
        match refused.get(&name) {
            None => strays[index].pushed_ref = Some(name),
            Some(error) => {
                strays[index].error = Some(error.to_string());
                strays[index].waits = error.trouble.retry_can_help() || error.trouble.is_elsewhere();
            }
        }
    }
    strays.append(&mut failed);
    Ok(strays)
}

/// Selects the commits with objects that the attempt, the remote and the other commits lack, within the
/// limits. `whole` is the attempt's tree.
async fn sort(
    git: &Git,
    attempt: &Attempt<'_>,
    whole: &str,
    head: Option<&str>,
    named: &[&(RefSource, String)],
) -> Result<OrphanSet, WorkspaceError> {
    let ids = named.iter().map(|(_, commit)| commit.as_str());
    let compared = [attempt.start]
        .into_iter()
        .chain(head)
        .chain(attempt.known.iter().copied());
    let commits = commits(git, compared.clone().chain(ids)).await?;
    let mut others: Vec<String> = compared
        .filter_map(|id| commits.get(id))
        .map(|at| at.id.clone())
        .collect();
    let mut found = OrphanSet::default();
    let mut bytes = 0;
    for (index, (place, commit)) in named.iter().enumerate() {
        let Some(at) = commits.get(commit.as_str()) else {
            continue;
        };
        // The attempt already has this tree; a stash can have more commits, for untracked files.
        if at.tree == whole && !matches!(place, RefSource::Stash(_)) {
            continue;
        }
        let size = match size_bytes(git, &at.id, &others).await {
            Ok(0) => continue,
            Ok(size) => size,
            Err(error) => {
                found.strays.push(orphan(place, &at.id, Some(error.to_string())));
                continue;
            }
        };
        others.push(at.id.clone());
        let over = over(found.to_push.len(), bytes, size);
        let goes = over.is_none();
        found.strays.push(orphan(place, &at.id, over));
        if goes {
            bytes += size;
            let mut name = place.name(attempt.name, index);
            if found.of.contains_key(&name) {
                name = format!("{}again/{index}", orphan_refs(attempt.name));
            }
            found.of.insert(name.clone(), found.strays.len() - 1);
            found.to_push.push((at.id.clone(), name));
        }
        if found.strays.len() >= 2 * MAX_ORPHANS {
            break;
        }
    }
    Ok(found)
}

/// Why a commit of this size exceeds the limits, beside `kept` commits of `bytes` in total.
fn over(kept: usize, bytes: u64, size: u64) -> Option<String> {
    if kept >= MAX_ORPHANS {
        return Some(format!("an attempt keeps at most {MAX_ORPHANS} of these"));
    }
    let (more, most) = (size >> 20, MAX_BYTES >> 20);
    (size > MAX_BYTES - bytes)
        .then(|| format!("it adds {more} MiB, and all of these together may hold {most} MiB"))
}

struct OrphanCommit {
    id: String,
    tree: String,
}

/// The ids that are commits, or tags of commits, by the requested id.
async fn commits<'a>(
    git: &Git,
    ids: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, OrphanCommit>, GitError> {
    let ids: Vec<&str> = ids.collect();
    let input: String = ids
        .iter()
        .map(|id| format!("{id}^{{commit}}\n{id}^{{tree}}\n"))
        .collect();
    let checked = git
        .run("cat-file")
        .args(["--batch-check=%(objectname) %(objecttype)"])
        // The agent did not create missing objects.
        .variable("GIT_NO_LAZY_FETCH", "1")
        .input(input)
        .output()
        .await?
        .text();
    let lines: Vec<&str> = checked.lines().collect();
    let mut known = BTreeMap::new();
    for (id, pair) in ids.iter().zip(lines.chunks(2)) {
        if let [commit, tree] = pair
            && let (Some(commit), Some(tree)) = (commit.strip_suffix(" commit"), tree.strip_suffix(" tree"))
        {
            let at = OrphanCommit {
                id: commit.to_owned(),
                tree: tree.to_owned(),
            };
            known.insert((*id).to_owned(), at);
        }
    }
    Ok(known)
}

/// Disk size of the objects of `commit` that the others lack; 0 when they have all.
async fn size_bytes(git: &Git, commit: &str, others: &[String]) -> Result<u64, GitError> {
    let output = git
        .run("rev-list")
        .args(["--objects", "--disk-usage", commit, "--not"])
        .args(others)
        .output()
        .await?;
    Ok(output.word().parse().unwrap_or(u64::MAX))
}

/// Creates the git directory `dir` with the objects of the agent's clone and of its source.
fn link_objects(git: &Git, start: &str, folders: &Folders, dir: &Path) -> io::Result<()> {
    remove_tree(dir)?;
    let lender = gitdir::lender(git.dir());
    let format = ObjectFormat::of(start);
    gitdir::make(dir, format, Head::Commit(start), lender.as_deref(), true, "")?;
    let Some(objects) = inside(&folders.tree(), Path::new(".git/objects")) else {
        return Ok(());
    };
    let mut remaining = MAX_FILES;
    for folder in fs::read_dir(&objects)?.flatten() {
        let name = folder.file_name();
        let is_loose = name.len() == 2 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit);
        if !folder.file_type()?.is_dir() || !(is_loose || name == "pack") {
            continue;
        }
        let to = dir.join("objects").join(&name);
        fs::create_dir_all(&to)?;
        for file in fs::read_dir(folder.path())?.flatten() {
            let name = file.file_name();
            let is_object = match is_loose {
                true => name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit),
                false => [".pack", ".idx"]
                    .iter()
                    .any(|end| name.to_string_lossy().ends_with(end)),
            };
            if !is_object || !file.file_type()?.is_file() {
                continue;
            }
            remaining = remaining.checked_sub(1).ok_or_else(|| {
                io::Error::other(format!("the clone has more than {MAX_FILES} object files"))
            })?;
            fs::hard_link(file.path(), to.join(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphan_refs_are_beside_the_attempts_ref() {
        let attempt = "refs/ralph/attempts/f/t-1/1-d-2";
        let rows = [
            (RefSource::Branch("a/b".to_owned()), "branches/a/b"),
            (RefSource::Tag("v1".to_owned()), "tags/v1"),
            (RefSource::Stash(2), "stashes/2"),
            (RefSource::Detached(0), "detached/0"),
            (
                RefSource::WorkTree(".claude/worktrees/x".to_owned()),
                "worktrees/x",
            ),
            (RefSource::Branch("a:b".to_owned()), "branches-unnamed/7"),
            (RefSource::Branch("\u{fffd}".to_owned()), "branches-unnamed/7"),
            (RefSource::Tag("x".repeat(200)), "tags-unnamed/7"),
        ];
        for (place, name) in rows {
            assert_eq!(place.name(attempt, 7), format!("{attempt}-strays/{name}"));
        }
    }
}

//! Turns an agent's tree on disk into one commit on its start, without running anything that the agent set
//! up.
//!
//! Only the tree on disk counts. The agent's own `.git` is read for two facts only: ignored files in its
//! index, which the agent committed on purpose, and files that a sparse checkout took off the disk. A
//! repository that the agent created inside its tree loses its `.git` (which moves to the worker's folder)
//! and becomes plain files.

pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod commit;
pub(crate) mod force_added;
pub(crate) mod gitlinks;
pub(crate) mod lfs_pointers;
pub(crate) mod modes;
pub(crate) mod orphan_commits;
pub(crate) mod orphan_refs;
pub(crate) mod quarantine;
pub(crate) mod repo_scan;
pub(crate) mod sparse;
pub(crate) mod weakened;
pub(crate) mod worktrees;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_shared::at_length::at_length;
use ralph_shared::wire::Snapshot;

use super::error::{GitError, WorkspaceError};
use super::git::Git;
use super::record::Folders;
use crate::workspace::clone::{filters, gitdir, submodules};
use crate::workspace::git::raw_diff::raw_changes;
use crate::workspace::git::trouble::Trouble;
use crate::workspace::snapshot::quarantine::quarantine_tree;

/// Most changed paths in a snapshot.
const NAMED_PATHS: usize = 500;
/// Git's message for an unreadable folder, after which it continues.
const UNREAD: &str = "could not open directory";
/// Attributes for files that are not in the encoding that an agent declared.
const UNENCODED: &str = "* -working-tree-encoding\n";
/// Attributes for any other failed conversion, such as a filter.
const UNCONVERTED: &str = "* -text -eol -ident -filter -working-tree-encoding\n";
/// Deepest nesting of repositories that is searched: more than a path can hold.
const NESTING: usize = 4096;

/// The tree on disk as git stores it, compared with the start.
#[derive(Debug)]
pub(super) struct Staged {
    /// Object id of the tree.
    pub tree: String,
    /// Paths that differ from the start.
    pub changed: Vec<Vec<u8>>,
    /// Whether git took a repository inside the tree for a submodule.
    nested: bool,
    /// Whether git could not read a folder, which it then takes for an empty one.
    unread: bool,
}

impl Staged {
    /// Fills in the changed files.
    pub(super) fn describe(&self, snapshot: &mut Snapshot) {
        snapshot.files_changed_count = self.changed.len() as u64;
        let named = self.changed.iter().take(NAMED_PATHS);
        snapshot.files_changed = named
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
    }
}

/// Stores the whole work tree of `git`, with untracked files and without ignored ones. `start` and the
/// feature's `base` are commits.
///
/// # Errors
/// When no way to store the files succeeds, a submodule has changes that its remote lacks, or a required
/// filter is unknown or fails.
pub(super) async fn stage(
    git: &Git,
    base: &str,
    start: &str,
    folders: &Folders,
) -> Result<Staged, WorkspaceError> {
    quarantine_tree(folders)?;
    let work_tree = &folders.tree();
    make_folder_again(work_tree)?;
    worktrees::move_worktrees_away(folders)?;
    let odd = modes::remove_blocking_rules(work_tree).map_err(WorkspaceError::io("clean", work_tree))?;
    if odd > 0 {
        tracing::warn!(odd, tree = %work_tree.display(), "removed pipes and devices that would block git");
    }
    clean(git, folders)?;
    let staged = stage_somehow(git, base, start, folders).await;
    if staged.is_err() {
        // The next try may come much later.
        clean(git, folders)?;
    }
    staged
}

async fn stage_somehow(
    git: &Git,
    base: &str,
    start: &str,
    folders: &Folders,
) -> Result<Staged, WorkspaceError> {
    let work_tree = &folders.tree();
    if attributes(git).exists() {
        reset(git, start).await?;
    }
    gitlinks::settle(git, folders).await?;
    filters::must_be_known_since(git, base).await?;
    match stage_as_it_is(git, start, &[0]).await {
        Ok(staged) if !staged.nested && !staged.unread => return Ok(staged),
        Ok(_) => {}
        Err(error) if is_final(&error) => return Err(error.into()),
        Err(error) => tracing::info!(%error, "failed to store the work tree as it is"),
    }
    if let Err(error) = modes::open_up(work_tree) {
        tracing::warn!(%error, tree = %work_tree.display(), "failed to change modes that an agent set");
    }
    // This path is slow, but it keeps the files whatever the agent did.
    clean(git, folders)?;
    reset(git, start).await?;
    unnest(git, work_tree, &folders.nested()).await?;
    gitlinks::settle(git, folders).await?;
    match stage_as_it_is(git, start, &[0]).await {
        Err(error) if is_final(&error) => return Err(error.into()),
        Err(_) => {}
        staged => return Ok(staged?),
    }
    // First drop only the encoding rules: other rules still apply.
    clean(git, folders)?;
    give_attributes(git, UNENCODED)?;
    match stage_as_it_is(git, start, &[0, 1]).await {
        Err(error) if is_final(&error) => return Err(error.into()),
        Err(error) => tracing::info!(%error, "failed to store the work tree without encodings"),
        Ok(staged) => {
            tracing::warn!(tree = %work_tree.display(), "stored without encodings; unreadable files may be missing");
            return Ok(staged);
        }
    }
    clean(git, folders)?;
    filters::must_be_none(git, base).await?;
    let staged = stage_unconverted(git, start).await?;
    tracing::warn!(tree = %work_tree.display(), "stored without conversions; unreadable files may be missing");
    Ok(staged)
}

/// Stores the work tree without conversions, except for files that the start keeps in Git LFS.
async fn stage_unconverted(git: &Git, start: &str) -> Result<Staged, WorkspaceError> {
    give_attributes(git, UNCONVERTED)?;
    let staged = stage_as_it_is(git, start, &[0, 1]).await?;
    let raw = lfs_pointers::stored_raw(git, start, &staged.tree).await?;
    if raw.is_empty() {
        return Ok(staged);
    }
    give_attributes(git, UNENCODED)?;
    let stored = lfs_pointers::store(git, &raw).await?;
    // Writing the index reads other files again.
    give_attributes(git, UNCONVERTED)?;
    lfs_pointers::enter(git, &raw, &stored).await?;
    Ok(staged_in_index(git, start, staged.unread).await?)
}

/// The worker's own attributes, which take precedence over those of the tree.
fn attributes(git: &Git) -> PathBuf {
    git.dir().join("info/attributes")
}

fn give_attributes(git: &Git, rules: &str) -> Result<(), WorkspaceError> {
    let path = attributes(git);
    fs::write(&path, rules).map_err(WorkspaceError::io("write", &path))
}

/// Resets the index to `start`, without the entries of an earlier try. Git keeps its knowledge of files on
/// disk, so it reads only changed ones.
async fn reset(git: &Git, start: &str) -> Result<(), WorkspaceError> {
    // Git reads files that were written just before the index, and no filter may fail here.
    give_attributes(git, UNCONVERTED)?;
    git.run("read-tree").args(["--reset", start]).output().await?;
    let path = attributes(git);
    fs::remove_file(&path).map_err(WorkspaceError::io("remove", &path))
}

/// Whether every other way to store the work would fail too: without space, files would be missing, and after
/// a timeout another try would take as long.
fn is_final(error: &GitError) -> bool {
    matches!(error.trouble, Trouble::NoSpace | Trouble::TimedOut)
}

/// Removes locks and half-written files of a killed git, which can be as large as the work, from the worker's
/// git directories of a workspace. No git may run there.
fn clean(git: &Git, folders: &Folders) -> Result<(), WorkspaceError> {
    let submodules = submodules::of(folders)?;
    let dirs = submodules.iter().map(|submodule| submodule.dir.as_path());
    for dir in [git.dir()].into_iter().chain(dirs.filter(|dir| dir.exists())) {
        let cleaned = at_length(|| {
            gitdir::remove_halves(&dir.join("objects"), Duration::ZERO);
            gitdir::remove_stale_locks(dir)
        });
        cleaned.map_err(WorkspaceError::io("clean", dir))?;
    }
    Ok(())
}

async fn stage_as_it_is(git: &Git, start: &str, accepted: &[i32]) -> Result<Staged, GitError> {
    let options = if accepted.len() > 1 {
        &["-A", "--ignore-errors", "."][..]
    } else {
        &["-A", "."]
    };
    let added = git.run("add").args(options).accept(accepted).output().await?;
    if added.code != 0 {
        added.must_have_had_space("add")?;
    }
    force_added::add(git).await?;
    sparse::restore(git, start).await?;
    let unread = String::from_utf8_lossy(&added.stderr).contains(UNREAD);
    staged_in_index(git, start, unread).await
}

async fn staged_in_index(git: &Git, start: &str, unread: bool) -> Result<Staged, GitError> {
    let tree = git.run("write-tree").output().await?.word();
    let raw = git
        .run("diff-tree")
        .args(["-r", "-z", "--raw", "--no-renames", start, &tree])
        .output()
        .await?;
    let (changed, nested) = changes(&raw.stdout);
    Ok(Staged {
        tree,
        changed,
        nested,
        unread,
    })
}

/// Parses `diff-tree -z --raw`: the paths, and whether a path became a submodule.
fn changes(raw: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut paths = Vec::new();
    let mut nested = false;
    for change in raw_changes(raw) {
        nested |= change.new_mode == b"160000" && change.old_mode != b"160000";
        paths.push(change.path.to_vec());
    }
    (paths, nested)
}

/// Moves the git directories of nested repositories out of the tree. Git lists a repository that it doesn't
/// enter with a trailing slash. Ignored repositories stay ignored.
async fn unnest(git: &Git, work_tree: &Path, aside: &Path) -> Result<(), WorkspaceError> {
    for _ in 0..NESTING {
        let others = git
            .run("ls-files")
            .args(["-z", "--others", "--exclude-standard"])
            .output()
            .await?;
        let mut moved = false;
        for path in others
            .stdout
            .split(|byte| *byte == 0)
            .filter(|path| path.ends_with(b"/"))
        {
            moved |= gitlinks::move_aside(work_tree, path, aside)?;
        }
        if !moved {
            break;
        }
    }
    Ok(())
}

/// Recreates a folder that the agent deleted. The deletion of all files is then its work.
fn make_folder_again(work_tree: &Path) -> Result<(), WorkspaceError> {
    if fs::symlink_metadata(work_tree).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    let _ = fs::remove_file(work_tree);
    fs::create_dir_all(work_tree).map_err(WorkspaceError::io("make the folder", work_tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_differences_are_parsed_with_any_file_name() {
        let raw = b":100644 100644 a b M\0a\nb \xff\0:000000 100644 0 c A\0d\0";
        assert_eq!(changes(raw), (vec![b"a\nb \xff".to_vec(), b"d".to_vec()], false));
        assert!(changes(b":000000 160000 0 a A\0sub\0").1);
        assert!(!changes(b":160000 160000 a b M\0sub\0").1);
        assert_eq!(changes(b""), (vec![], false));
    }
}

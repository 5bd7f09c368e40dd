//! Additional work trees that an agent created inside its tree (`git worktree add`). Each is a copy of the
//! repository and no part of the attempt, so it is moved into the worker's folder before git sees the tree.
//! Its commits are handled as orphan commits. Uncommitted changes become an orphan commit.
//!
//! ```text
//! tree/PATH/.git ─► tree/.git/worktrees/NAME      tree/PATH is moved to linked/NAME
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::gitlinks::read;
use super::{commit, modes};
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::Git;
use crate::workspace::paths::{inside, lexical};
use crate::workspace::record::{self, Folders};
use crate::workspace::{git::address, publish::rebase};

/// Folder of an agent's clone with its list of work trees.
const LIST: &str = ".git/worktrees";
/// Most work trees that are handled.
const MAX_WORKTREES: usize = 1_000;

/// A work tree that was moved out of the session's tree.
#[derive(Debug)]
pub(in crate::workspace) struct MovedWorktree {
    /// The original path, relative to the tree, lossily as UTF-8.
    pub path: String,
    /// Contents of its `HEAD`: a commit, or `ref: ` and a name.
    pub head: String,
    place: PathBuf,
}

/// Moves additional work trees out of the tree.
pub(in crate::workspace) fn move_worktrees_away(folders: &Folders) -> Result<(), WorkspaceError> {
    let tree = folders.tree();
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    for list in listed(&tree) {
        if let (Some(path), Some(name)) = (path_of(&tree, &list), list.file_name())
            && leads_back(&tree, &path)
        {
            found.push((path, folders.worktrees().join(name)));
        }
    }
    // Inner work trees first.
    found.sort();
    for (path, place) in found.into_iter().rev() {
        let Some(folder) = inside(&tree, &path) else {
            continue;
        };
        record::make_private(&folders.worktrees())?;
        let above = folder.parent().unwrap_or(&tree);
        modes::open_folder(above)
            .and_then(|()| modes::open_folder(&folder))
            .and_then(|()| fs::rename(&folder, &place))
            .map_err(WorkspaceError::io("move away", &folder))?;
        tracing::info!(path = %path.display(), "moved an additional work tree out of the work");
    }
    Ok(())
}

/// The work trees that this or an earlier call moved away.
pub(in crate::workspace) fn of(folders: &Folders) -> Vec<MovedWorktree> {
    let tree = folders.tree();
    let lists = listed(&tree).into_iter().filter_map(|list| {
        let place = folders.worktrees().join(list.file_name()?);
        let path = path_of(&tree, &list)?;
        place.is_dir().then(|| MovedWorktree {
            path: path.to_string_lossy().into_owned(),
            head: read(&list.join("HEAD")).unwrap_or_default().trim().to_owned(),
            place,
        })
    });
    lists.collect()
}

impl MovedWorktree {
    pub(in crate::workspace) fn branch(&self) -> Option<&str> {
        self.head.strip_prefix("ref: refs/heads/")
    }

    /// The checked-out commit when no branch is checked out. Hex object id.
    pub(in crate::workspace) fn detached(&self) -> Option<&str> {
        Some(self.head.as_str()).filter(|head| address::is_object_id(head))
    }

    /// Commits uncommitted changes onto `parent`; `None` when there are none. `git` has the objects of the
    /// agent's clone and an index for temporary use.
    pub(in crate::workspace) async fn commit(
        &self,
        git: &Git,
        parent: &str,
    ) -> Result<Option<String>, WorkspaceError> {
        modes::open_up(&self.place)
            .and_then(|()| modes::remove_blocking_rules(&self.place).map(drop))
            .map_err(WorkspaceError::io("change modes in", &self.place))?;
        let git = git.at(git.dir().to_owned()).with_tree(self.place.clone());
        git.run("read-tree").args(["--reset", parent]).output().await?;
        git.run("add").args(["-A", "."]).output().await?;
        let tree = git.run("write-tree").output().await?.word();
        if tree == rebase::tree_of(&git, parent).await? {
            return Ok(None);
        }
        let date = git.run("show").args(["-s", "--format=%cI", parent]).output();
        // A fixed date gives the same commit each time, so that an earlier push is recognised.
        let date = date.await?.word();
        let author = commit::author(&git);
        let made = git
            .run("commit-tree")
            .args(["--no-gpg-sign", "-p", parent, "-F", "-", &tree])
            .variable("GIT_AUTHOR_NAME", &author.name)
            .variable("GIT_AUTHOR_EMAIL", &author.email)
            .variable("GIT_AUTHOR_DATE", &date)
            .variable("GIT_COMMITTER_NAME", &author.name)
            .variable("GIT_COMMITTER_EMAIL", &author.email)
            .variable("GIT_COMMITTER_DATE", &date)
            .input(format!("Not committed in the work tree {}\n", self.path));
        Ok(Some(made.output().await?.word()))
    }
}

/// The clone's administrative folders of additional work trees.
fn listed(tree: &Path) -> Vec<PathBuf> {
    let list = inside(tree, Path::new(LIST)).and_then(|list| fs::read_dir(list).ok());
    let entries = list.into_iter().flatten().flatten().take(MAX_WORKTREES);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// The path of a work tree inside the tree, relative to its root.
fn path_of(tree: &Path, list: &Path) -> Option<PathBuf> {
    let dir = below(tree, &list.join(read(&list.join("gitdir"))?.trim()))?;
    let path = dir.parent()?;
    (dir.ends_with(".git") && !path.as_os_str().is_empty()).then(|| path.to_owned())
}

/// Whether the folder is a work tree of the tree's own clone.
fn leads_back(tree: &Path, path: &Path) -> bool {
    let dir = inside(tree, path).and_then(|folder| {
        let place = read(&folder.join(".git"))?;
        below(tree, &folder.join(place.strip_prefix("gitdir:")?.trim()))
    });
    dir.is_some_and(|dir| dir.parent() == Some(Path::new(LIST)))
}

/// Makes an agent's path relative to the tree's root, for either name of that root. Follows no links.
fn below(tree: &Path, path: &Path) -> Option<PathBuf> {
    let path = lexical(path);
    let known = tree.canonicalize().ok();
    let found = path.strip_prefix(tree).ok();
    let found = found.or_else(|| path.strip_prefix(known.as_ref()?).ok());
    found.map(Path::to_owned)
}

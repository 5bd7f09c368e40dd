//! An agent's private clone: its own `.git`, with objects borrowed from the mirror. It shares nothing
//! writable.
//!
//! The worker checks the tree out with its own git directory and index, and gives the agent a separate `.git`
//! beside the files. The worker's git never reads that one.

pub(crate) mod filters;
pub(crate) mod gitdir;
pub(crate) mod gitmodules;
pub(crate) mod history;
pub(crate) mod lfs;
pub(crate) mod mirror;
pub(crate) mod pack;
pub(crate) mod prepare;
pub(crate) mod submodules;

use std::fs;
use std::path::Path;

use super::error::{GitError, WorkspaceError};
use super::git::Git;
use crate::workspace::clone::gitdir::{Head, ObjectFormat};
use crate::workspace::git::address;
use crate::workspace::git::environment::Identity;
use crate::workspace::publish::rebase::{self, Conflict, Rebased};

/// Start of a clone.
#[derive(Debug)]
pub(super) struct Start {
    pub commit: String,
    /// A commit whose change is merged into the files.
    pub brings: Option<String>,
}

/// Creates the worker's git directory and checks `start` out into the work tree, for a feature that begins at
/// `base`. Returns the conflict with `start.brings`, if there is one; the files then have conflict markers.
///
/// # Errors
/// When an object can't be read (the mirror is broken then), or a file can't be written.
pub(super) async fn check_out(
    git: &Git,
    start: &Start,
    base: &str,
    objects: &Path,
) -> Result<CheckedOut, WorkspaceError> {
    let Start { commit, brings } = start;
    gitdir::make(
        git.dir(),
        ObjectFormat::of(commit),
        Head::Commit(commit),
        Some(objects),
        false,
        "",
    )
    .and_then(|()| lfs::share(git))
    .map_err(WorkspaceError::io("make the git directory", git.dir()))?;
    lfs::settle(git, base).await?;
    if gitdir::is_partial(objects) {
        // Run in the mirror: missing objects are then fetched at once, and into the folder that the agent's
        // clone borrows from.
        let mirror = objects.parent().unwrap_or(objects);
        // The mirror's configuration doesn't name the Git LFS server.
        let read = git.run("read-tree").args(["--reset", "-u", commit]);
        let read = read.configured(lfs::settled(git).await?);
        read.variable("GIT_DIR", mirror).remote().output().await?;
    }
    let Some(brings) = brings else {
        read_tree(git, commit).await?;
        filters::must_be_known(git).await?;
        return Ok(CheckedOut {
            tree: commit.clone(),
            conflict: None,
        });
    };
    let (tree, conflict) = match rebase::rebase(git, commit, brings).await? {
        Rebased::Clean { tree, .. } => (tree, None),
        Rebased::Conflict(conflict) => (conflict.tree.clone(), Some(conflict)),
    };
    // The index keeps the merged tree: otherwise the session's snapshot would lack ignored files and
    // submodule commits.
    read_tree(git, &tree).await?;
    filters::must_be_known(git).await?;
    Ok(CheckedOut { tree, conflict })
}

pub(super) struct CheckedOut {
    /// A tree, or a commit with that tree.
    pub tree: String,
    /// Conflicts in the tree's files.
    pub conflict: Option<Conflict>,
}

/// Checks `start` out with an existing git directory.
pub(super) async fn read_tree(git: &Git, start: &str) -> Result<(), GitError> {
    let read = git
        .run("read-tree")
        .args(["--reset", "-u", start])
        .output()
        .await?;
    filters::must_be_encoded(&read.stderr)
}

/// Contents of an agent's `.git`.
pub(super) struct AgentClone<'a> {
    /// The checked-out branch, without `refs/heads/`.
    pub branch: &'a str,
    /// The checked-out commit.
    pub start: &'a str,
    /// The branch's head at the remote, if the branch exists there.
    pub head: Option<&'a str>,
    pub address: &'a str,
    /// The author of the agent's commits.
    pub author: &'a Identity,
}

impl AgentClone<'_> {
    /// Writes `.git` into the checked-out `tree`, with a copy of the worker's index, so that no file looks
    /// changed.
    pub(super) fn write(&self, git: &Git, tree: &Path, objects: &Path) -> Result<(), WorkspaceError> {
        let dir = tree.join(".git");
        let local = format!("refs/heads/{}", self.branch);
        let config = format!(
            "[remote \"origin\"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n{}",
            gitdir::quoted(&address::public(self.address)),
            gitdir::user_section(self.author),
        );
        let mut refs = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{} {local}\n",
            self.start
        );
        if let Some(head) = self.head {
            refs.push_str(&format!("{head} refs/remotes/origin/{}\n", self.branch));
        }
        gitdir::make(
            &dir,
            ObjectFormat::of(self.start),
            Head::Ref(&local),
            Some(objects),
            false,
            &config,
        )
        .and_then(|()| fs::write(dir.join("packed-refs"), refs))
        .and_then(|()| fs::copy(git.dir().join("index"), dir.join("index")).map(drop))
        .map_err(WorkspaceError::io("make the clone", &dir))
    }

    /// Records a conflict with the commit `brought` in the agent's `.git`, as `git merge` does.
    pub(super) async fn unmerge(
        &self,
        git: &Git,
        tree: &Path,
        conflict: &Conflict,
        brought: &str,
    ) -> Result<(), WorkspaceError> {
        let dir = tree.join(".git");
        git.run("update-index")
            .args(["-z", "--index-info"])
            .variable("GIT_INDEX_FILE", dir.join("index"))
            .input(conflict.stages.as_slice())
            .output()
            .await?;
        fs::write(dir.join("MERGE_HEAD"), format!("{brought}\n"))
            .and_then(|()| fs::write(dir.join("MERGE_MSG"), format!("Merge {brought}\n")))
            .map_err(WorkspaceError::io("make the clone", &dir))
    }
}

//! An agent's private clone: its own `.git`, objects borrowed from the mirror, nothing writable shared with anybody.
//!
//! The worker checks the tree out with its own git directory and index, and gives the agent a `.git` of its own beside
//! the files. What the agent does to that one, nobody reads.

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

/// Where a clone starts.
#[derive(Debug)]
pub(super) struct Start {
    pub commit: String,
    /// The commit whose change is merged into its files.
    pub brings: Option<String>,
}

/// Checks `start` out into `tree` with the worker's git directory, which is made here, for a feature that begins at `base`. Returns the conflict with what
/// it brings, if there is one: its markers stand in the files.
///
/// # Errors
/// When an object can't be read (the mirror is broken then), or the disk doesn't take it.
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
        // As the mirror, so that what is missing is fetched at once, and into what the agent's clone borrows from.
        let mirror = objects.parent().unwrap_or(objects);
        // The mirror's configuration doesn't say which server of Git LFS is asked.
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
    // What it brings stays in the index: ignored files, and where submodules stand, would be missing in what the session leaves.
    read_tree(git, &tree).await?;
    filters::must_be_known(git).await?;
    Ok(CheckedOut { tree, conflict })
}

pub(super) struct CheckedOut {
    /// A tree, or the commit whose tree it is.
    pub tree: String,
    /// What is to be brought together in it.
    pub conflict: Option<Conflict>,
}

/// Checks `start` out with a git directory that is there.
pub(super) async fn read_tree(git: &Git, start: &str) -> Result<(), GitError> {
    let read = git
        .run("read-tree")
        .args(["--reset", "-u", start])
        .output()
        .await?;
    filters::must_be_encoded(&read.stderr)
}

/// What an agent's `.git` says.
pub(super) struct AgentClone<'a> {
    /// The branch that is checked out, without `refs/heads/`.
    pub branch: &'a str,
    /// The commit that is checked out.
    pub start: &'a str,
    /// The branch's head at the remote, if it is there.
    pub head: Option<&'a str>,
    /// The repository's address.
    pub address: &'a str,
    /// By whom the agent commits, if it does.
    pub author: &'a Identity,
}

impl AgentClone<'_> {
    /// Writes `.git` into the checked-out `tree`, with a copy of the worker's index, so that nothing looks changed.
    ///
    /// # Errors
    /// When the disk doesn't take it.
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

    /// Lets the agent's git know of a conflict with the commit `brought`, as after a `git merge`.
    ///
    /// # Errors
    /// When git fails, or the disk doesn't take it.
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

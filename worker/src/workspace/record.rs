//! The worker's record of a workspace, by which a later instance finds work that is not pushed yet.
//!
//! ```text
//! workspaces/DISPATCH/{tree,home,tmp}             the agent's
//! records/DISPATCH/{workspace.json,lock,git,…}    the worker's
//! mirrors/NAME/                                   shared
//! caches/NAME/…                                   shared, copied
//! kept/DISPATCH/                                  leftovers of a session without a repository
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_shared::at_length::at_length;
use ralph_shared::wire::{GitOrder, WorkspaceOrder};
use serde::{Deserialize, Serialize};

use super::error::WorkspaceError;
use crate::home;
use crate::workspace::snapshot::modes::remove_tree;

#[derive(Debug, Clone)]
pub(super) struct Folders {
    /// The agent's folder, removed as a whole.
    pub agent: PathBuf,
    pub worker: PathBuf,
}

impl Folders {
    pub(super) fn new(data: &Path, dispatch: &str) -> Result<Self, WorkspaceError> {
        let fits = (1..=80).contains(&dispatch.len())
            && dispatch
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !fits {
            return Err(WorkspaceError::Order(format!(
                "`{dispatch}` is no valid folder name"
            )));
        }
        Ok(Self {
            agent: workspaces(data).join(dispatch),
            worker: records(data).join(dispatch),
        })
    }

    /// The data folder above both.
    pub(super) fn data(&self) -> &Path {
        self.agent.ancestors().nth(2).unwrap_or(&self.agent)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.agent.join("tree")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.agent.join("home")
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.agent.join("tmp")
    }

    pub(super) fn git(&self) -> PathBuf {
        self.worker.join("git")
    }

    /// The worker's git directories of submodules.
    pub(super) fn modules(&self) -> PathBuf {
        self.worker.join("modules")
    }

    /// Git directories that an agent left inside its tree.
    pub(super) fn nested(&self) -> PathBuf {
        self.worker.join("nested")
    }

    /// Folder for work trees that an agent created inside its tree.
    pub(super) fn worktrees(&self) -> PathBuf {
        self.worker.join("linked")
    }

    /// The git directory with the objects of an agent's clone.
    pub(super) fn orphans(&self) -> PathBuf {
        self.worker.join("strays")
    }

    fn file(&self) -> PathBuf {
        self.worker.join("workspace.json")
    }

    /// Makes the folders, readable by nobody else.
    pub(super) fn make(&self) -> Result<(), WorkspaceError> {
        for folder in [&self.worker, &self.tree(), &self.home(), &self.tmp()] {
            make_private(folder)?;
        }
        Ok(())
    }

    /// Deletes files of an earlier instance, but not the lock.
    pub(super) fn clear(&self) -> Result<(), WorkspaceError> {
        remove_tree(&self.agent).map_err(WorkspaceError::io("remove", &self.agent))?;
        for folder in [self.git(), self.modules(), self.worktrees(), self.orphans()] {
            remove_tree(&folder).map_err(WorkspaceError::io("remove", &folder))?;
        }
        Ok(())
    }

    /// Replaces the agent's working directory with an empty one.
    pub(super) fn empty_tree(&self) -> Result<(), WorkspaceError> {
        let tree = self.tree();
        remove_tree(&tree).map_err(WorkspaceError::io("remove", &tree))?;
        make_private(&tree)
    }

    /// Locks the workspace for this process; `None` when another one has it.
    pub(super) fn lock(&self) -> Result<Option<File>, WorkspaceError> {
        make_private(&self.worker)?;
        let path = self.worker.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.map_err(WorkspaceError::io("open the lock", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(WorkspaceError::io("lock", &path)(error)),
        }
    }

    /// Reads the record; `None` when there is none, which means that no work had begun.
    pub(super) fn read(&self) -> Result<Option<Record>, WorkspaceError> {
        let path = self.file();
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(WorkspaceError::io("read", &path))?,
        };
        let record = serde_json::from_slice(&bytes);
        record
            .map_err(|error| WorkspaceError::io("parse", &path)(error.into()))
            .map(Some)
    }

    /// Time since an entry was last made or removed in the worker's folder.
    pub(super) fn idle_time(&self) -> Option<Duration> {
        fs::metadata(&self.worker)
            .and_then(|folder| folder.modified())
            .ok()?
            .elapsed()
            .ok()
    }

    /// Time since the record was last written; zero when unknown.
    pub(super) fn record_age(&self) -> Duration {
        let written = fs::metadata(self.file()).and_then(|file| file.modified());
        written
            .ok()
            .and_then(|written| written.elapsed().ok())
            .unwrap_or_default()
    }

    /// Replaces the record atomically.
    pub(super) fn write(&self, record: &Record) -> Result<(), WorkspaceError> {
        let path = self.file();
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|error| WorkspaceError::io("write", &path)(error.into()))?;
        at_length(|| home::replace(&path, &bytes)).map_err(WorkspaceError::io("write", &path))
    }

    /// Deletes the folders, the record first: the next instance deletes half-removed folders without a record
    /// instead of taking them for work.
    pub(super) fn remove(&self) -> Result<(), WorkspaceError> {
        let path = self.file();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io("remove", &path)(error));
            }
            _ => {}
        }
        for folder in [&self.agent, &self.worker] {
            remove_tree(folder).map_err(WorkspaceError::io("remove", folder))?;
        }
        Ok(())
    }
}

pub(super) fn workspaces(data: &Path) -> PathBuf {
    data.join("workspaces")
}

pub(super) fn records(data: &Path) -> PathBuf {
    data.join("records")
}

pub(super) fn caches(data: &Path) -> PathBuf {
    data.join("caches")
}

/// Leftovers of sessions without a repository.
pub(super) fn leftovers(data: &Path) -> PathBuf {
    data.join("kept")
}

pub(super) fn mirrors(data: &Path) -> PathBuf {
    data.join("mirrors")
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub dispatch: String,
    pub order: WorkspaceOrder,
    pub purpose: Purpose,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// Changes in it are work.
    Work,
    /// Changes in it are thrown away: a session judges, reads or integrates.
    ThrowAway,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum State {
    /// It is being prepared; no agent has seen it.
    Preparing,
    /// An agent may have worked in it since this commit.
    Ready { start: String },
    /// Its work is in this commit and goes to the attempt ref.
    Committed {
        start: String,
        commit: String,
        tree: String,
    },
    /// Its work is on the attempt ref.
    Pushed {
        start: String,
        commit: String,
        tree: String,
    },
}

impl State {
    /// The commit of `tree`, if that was the last tree committed.
    pub(super) fn commit_of(self, tree: &str) -> Option<String> {
        match self {
            Self::Committed { commit, tree: of, .. } | Self::Pushed { commit, tree: of, .. }
                if of == tree =>
            {
                Some(commit)
            }
            _ => None,
        }
    }
}

impl Record {
    /// The order and the start of work that would be lost with its folder. Pushed work counts too: a worker
    /// that died before its report may have told nobody.
    pub(super) fn holds_work(&self) -> Option<(&GitOrder, &str)> {
        match (&self.order, self.purpose, &self.state) {
            (
                WorkspaceOrder::Git(order),
                Purpose::Work,
                State::Ready { start } | State::Committed { start, .. } | State::Pushed { start, .. },
            ) => Some((order, start)),
            _ => None,
        }
    }

    /// Whether its folder holds files that no branch will hold.
    pub(super) fn holds_files(&self) -> bool {
        matches!(
            (&self.order, self.purpose),
            (WorkspaceOrder::Scratch, Purpose::Work)
        )
    }
}

pub(super) fn make_private(folder: &Path) -> Result<(), WorkspaceError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(WorkspaceError::io("make the folder", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_belongs_to_one_process_at_a_time() {
        let data = tempfile::tempdir().unwrap();
        let folders = Folders::new(data.path(), "d-1").unwrap();
        let lock = folders.lock().unwrap();
        assert!(lock.is_some());
        assert!(folders.lock().unwrap().is_none());
        drop(lock);
        assert!(folders.lock().unwrap().is_some());
    }

    #[test]
    fn a_name_that_is_no_plain_folder_is_refused() {
        for name in ["", "..", "a/b", "a b", "é"] {
            assert!(Folders::new(Path::new("/"), name).is_err(), "{name}");
        }
    }
}

//! Errors of workspaces. Each message says what was tried, on what, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use crate::workspace::git::trouble::Trouble;
use crate::workspace::in_place::lock::DirHolder;

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// No worker can follow the order.
    #[error("the workspace order is invalid: {0}")]
    Order(String),
    /// A command of `[workspace] setup` failed.
    #[error("`{command}` of [workspace] setup failed:\n{output}")]
    Setup {
        command: String,
        /// The end of its output, and its exit status.
        output: String,
    },
    /// A session can't work in a folder of this machine.
    #[error("can't work in {}: {why}", path.display())]
    Dir {
        path: PathBuf,
        /// Why, and what to do about it.
        why: String,
    },
    /// The agent of a dead worker's session may still work in a folder.
    #[error(
        "can't work in {}: {} is held by {holder}, which died; start that worker again, or make sure that nothing works there any \
         more and run `ralph-worker free {}`",
        path.display(),
        holder.path.display(),
        holder.path.display()
    )]
    DirLeft { path: PathBuf, holder: DirHolder },
    /// The sandbox of commands can't be set up here.
    #[error("{0}")]
    Sandbox(String),
    #[error("{address} has no commits yet: push a first commit to it, then retry")]
    EmptyRepository { address: String },
    /// A commit that the work needs is not in the repository.
    #[error(
        "{address} has no commit {commit} ({role}): push it there, or submit again with a base that is there"
    )]
    CommitMissing {
        address: String,
        /// Hex object id.
        commit: String,
        role: &'static str,
    },
    /// A commit with the task's trailer is already on the feature's branch, but the coordinator doesn't know
    /// it, for example because its database was restored from a backup. Nothing is to do.
    #[error("the task already landed as {commit}")]
    Landed {
        /// Hex object id.
        commit: String,
        /// Whether the commit changes nothing.
        empty: bool,
    },
    /// The feature's branch belongs to somebody else, so nothing may land on it.
    #[error("{0}")]
    NotOurs(String),
    /// A session left a submodule in a state that nobody else could fetch.
    #[error(
        "the submodule {path} was left {what} at {address}: push the commit there, and Ralph tries again; until then \
         the work stays in {}",
        kept.display()
    )]
    Submodule {
        path: String,
        /// What is wrong with the submodule.
        what: String,
        address: String,
        kept: PathBuf,
    },
    /// Data that can't be reproduced exceeds the disk budget.
    #[error(
        "{} uses {used_mib} MiB, more than its budget of {budget_mib} MiB, and the rest is in use or not pushed yet: \
         raise `disk_budget_mb` of [workspace], or run fewer sessions at once",
        data.display()
    )]
    OverBudget {
        data: PathBuf,
        used_mib: u64,
        budget_mib: u64,
    },
    /// A process has locked the workspace of this dispatch, or its work is not pushed yet.
    #[error("the workspace of {dispatch} is in use, or holds work that is not pushed yet")]
    Busy { dispatch: String },
    /// Git on this machine can't be used.
    #[error("{0}: install git 2.38 or newer on the worker's machine")]
    NoGit(String),
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file operation of the worker failed.
    #[error("failed to {tried} {}: {source}", path.display())]
    Io {
        tried: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl WorkspaceError {
    /// Whether trying again without a person can help.
    pub fn retry_can_help(&self) -> bool {
        match self {
            Self::Git(error) => error.trouble.retry_can_help(),
            Self::Io { .. }
            | Self::Busy { .. }
            | Self::Setup { .. }
            | Self::Submodule { .. }
            | Self::OverBudget { .. } => true,
            Self::Order(_)
            | Self::Sandbox(_)
            | Self::EmptyRepository { .. }
            | Self::CommitMissing { .. }
            | Self::Landed { .. }
            | Self::NotOurs(_)
            | Self::NoGit(_)
            | Self::Dir { .. }
            | Self::DirLeft { .. } => false,
        }
    }

    /// Whether waiting can help, without a person.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Git(error) => error.trouble.is_away(),
            Self::OverBudget { .. } => true,
            _ => false,
        }
    }

    /// Whether the server or this worker is at fault, not the task. Another worker may succeed, or this one
    /// after a person followed the message.
    pub fn is_elsewhere(&self) -> bool {
        match self {
            Self::Git(error) => error.trouble.is_elsewhere(),
            Self::Dir { .. }
            | Self::DirLeft { .. }
            | Self::Sandbox(_)
            | Self::OverBudget { .. }
            | Self::Busy { .. }
            | Self::NoGit(_)
            | Self::Io { .. } => true,
            Self::Order(_)
            | Self::Setup { .. }
            | Self::EmptyRepository { .. }
            | Self::CommitMissing { .. }
            | Self::Landed { .. }
            | Self::NotOurs(_)
            | Self::Submodule { .. } => false,
        }
    }

    /// For `map_err` on file operations.
    pub(super) fn io(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            tried,
            path: path.to_owned(),
            source,
        }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("`git {command}` failed: {trouble}: {words}; to do: {}", trouble.advice())]
pub struct GitError {
    /// The subcommand and, where it helps, what it was used on.
    pub command: String,
    pub trouble: Trouble,
    /// Git's own words, shortened, without logins.
    pub words: String,
    /// The exit code, unless git was killed or never started.
    pub code: Option<i32>,
}

/// Git's words for a broken repository. All lower case.
const BROKEN: &[&str] = &[
    "corrupt",
    "bad object",
    "bad tree",
    "not a git repository",
    "not a valid object",
    "unable to read",
    "unable to parse",
    "could not parse",
    "could not read",
    "cannot read",
    "missing blob",
    "missing tree",
    "missing commit",
    "invalid object",
    "inflate",
    "bad config",
    "bad ref",
    "broken",
    "cannot lock ref",
    "unable to resolve reference",
    "packfile",
    "object file",
    "revision walk setup failed",
    "did not send all necessary objects",
];

impl GitError {
    /// Whether the worker's own copy of the repository may be broken.
    pub(super) fn suspects_objects(&self) -> bool {
        let words = self.words.to_lowercase();
        !self.trouble.is_remote() && BROKEN.iter().any(|broken| words.contains(broken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_and_server_errors_do_not_blame_the_task() {
        let dir = WorkspaceError::Dir {
            path: PathBuf::from("/srv/notes"),
            why: "this worker may not".to_owned(),
        };
        let git = |words: &str| {
            WorkspaceError::Git(GitError {
                command: "fetch".to_owned(),
                trouble: Trouble::of(words),
                words: words.to_owned(),
                code: Some(128),
            })
        };
        let setup = WorkspaceError::Setup {
            command: "npm ci".to_owned(),
            output: String::new(),
        };
        let rows = [
            (dir, true),
            (
                git("fatal: '/srv/x' does not appear to be a git repository"),
                true,
            ),
            (
                git("fatal: detected dubious ownership in repository at '/srv/x'"),
                true,
            ),
            (git("fatal: Authentication failed for 'https://x/'"), true),
            (git("Connection refused"), true),
            (git("fatal: bad object"), false),
            (setup, false),
        ];
        for (error, elsewhere) in rows {
            assert_eq!(error.is_elsewhere(), elsewhere, "{error}");
        }
    }
}

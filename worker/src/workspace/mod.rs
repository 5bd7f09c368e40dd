//! Workspaces of agents, and delivery of their work to the feature branch (DESIGN 6).
//!
//! An agent gets a folder that it may wreck, `.git` included. The worker never runs git with the
//! configuration in that folder: each workspace has a git directory of the worker's outside it, which uses
//! the folder only as a work tree.
//! At the end of a session the worker commits every change and pushes the commit to the dispatch's attempt
//! ref. An integration brings one attempt onto the feature branch. It is decided before it is pushed.
//!
//! | module | contents |
//! | --- | --- |
//! | `workspaces`, `folder` | all workspaces of a data folder; one workspace with its snapshot and push |
//! | `record`, `locked` | a record of each workspace, so that a later process finds unpushed work |
//! | `clone` | mirrors, private clones, submodules, large files, filters |
//! | `snapshot` | the tree on disk as one commit, and commits that an agent made elsewhere |
//! | `publish` | attempt refs, landings, updates, reverts, merges, pruning |
//! | `cache` | folders that setup fills once, and the disk budget |
//! | `in_place` | work directly in a folder of this machine |
//! | `git` | the git command line in a process group: environment, time limits, errors |
//! | `commands`, `ports` | setup and gate commands in a checkout; ports reserved for one session |

mod cache;
mod clone;
mod commands;
mod error;
mod folder;
mod git;
mod in_place;
mod locked;
mod paths;
mod ports;
pub mod publish;
mod record;
pub(crate) mod settings;
mod snapshot;
mod workspaces;

pub use crate::workspace::clone::filters::FilterRule;
pub use crate::workspace::clone::pack::Untidy;
pub use crate::workspace::git::trouble::Trouble;
pub use crate::workspace::in_place::lock::{DirHolder, free_dir};
pub use crate::workspace::publish::prune::Pruned;
pub use crate::workspace::settings::History;
pub use crate::workspace::settings::{CacheRule, WarmRule};
pub use crate::workspace::settings::{KEEP_FILES_DAYS, Settings};
pub use crate::workspace::snapshot::bulk::BulkLimits;
pub use crate::workspace::snapshot::commit::{CommitMessage, is_author};
pub use crate::workspace::{publish::integrate::Decision, snapshot::commit::TASK_TRAILER};
pub use commands::CommandFailure;
pub use error::{GitError, WorkspaceError};
pub use folder::Workspace;
pub use workspaces::Workspaces;

//! Where agents work, and how their work gets onto the feature branch (DESIGN 6).
//!
//! An agent gets a folder that it may wreck, `.git` included. The worker never runs git with what stands in there: it
//! has a git directory of its own for each workspace, outside the folder, and looks at the folder as a work tree only.
//! At the end of a session the worker commits everything that changed and pushes it to the dispatch's attempt ref. An
//! integration brings one attempt onto the feature branch, decided before it is pushed.
//!
//! | module | what it does |
//! | --- | --- |
//! | `workspaces`, `folder` | all workspaces of a data folder; one workspace with its snapshot and push |
//! | `record`, `locked` | notes about each workspace, so that a later process finds work that isn't pushed |
//! | `clone` | mirrors, private clones, submodules, large files, filters |
//! | `snapshot` | the tree on disk as one commit, with everything that an agent hid elsewhere |
//! | `publish` | attempt refs, landings, updates, reverts, merges, pruning |
//! | `cache` | folders that setup fills once, and the disk that all of it may take |
//! | `in_place` | work in a folder of this machine itself |
//! | `git` | the git command line in a process group: environment, time limits, errors |
//! | `commands`, `ports` | setup and gate commands in a checkout; ports of a session's own |

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

pub use crate::workspace::cache::unused::Forgotten;
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

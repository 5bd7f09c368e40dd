//! Where agents work, and how their work gets onto the feature branch (DESIGN 6).
//!
//! An agent gets a folder that it may wreck, `.git` included. The worker never runs git with what stands in there: it
//! has a git directory of its own for each workspace, outside the folder, and looks at the folder as a work tree only.
//! At the end of a session everything that changed is committed and pushed to the dispatch's own attempt ref; an
//! integration brings one attempt onto the feature branch, decided before it is pushed.
//!
//! | module | what it does |
//! | --- | --- |
//! | `workspaces`, `crate::workspace::clone::prepare`, `crate::workspace::publish::rescue` | [`Workspaces`]: makes workspaces, finds unpushed ones of an earlier life |
//! | `folder` | [`Workspace`]: the folder, its snapshot and push at the end |
//! | `in_place`, `crate::workspace::in_place::lock` | a folder of this machine that is worked in itself, and who works there |
//! | `record`, `held` | folders, locks and the record of each workspace |
//! | `crate::workspace::in_place::kept` | what sessions without a repository left stays for some days |
//! | `crate::workspace::snapshot::modes`, `crate::workspace::cache::disk_room` | folders are removed whatever an agent made of them; room on a disk that it filled |
//! | `crate::workspace::clone::mirror`, `clone`, `crate::workspace::clone::gitdir` | the bare mirror, what borrows from it, git directories made by hand |
//! | `crate::workspace::clone::history` | how much of a repository is fetched |
//! | `crate::workspace::clone::pack` | mirrors are packed together, and nothing of them is collected |
//! | `crate::workspace::clone::submodules`, `crate::workspace::clone::gitmodules`, `crate::workspace::snapshot::gitlinks`, `crate::workspace::clone::lfs` | repositories and large files that belong to one |
//! | `snapshot`, `crate::workspace::snapshot::commit` | the tree on disk as a commit |
//! | `crate::workspace::snapshot::force_added`, `crate::workspace::snapshot::sparse` | what an agent's index says of it: ignored files that are meant, files that are only off the disk |
//! | `crate::workspace::snapshot::lfs_pointers` | large files stay out of a history, however work has to be stored |
//! | `crate::workspace::snapshot::quarantine` | the tree is taken out of the reach of whoever still runs, before git looks at it |
//! | `crate::workspace::snapshot::orphan_commits`, `crate::workspace::snapshot::orphan_refs` | what an agent committed elsewhere: other branches, no branch, its stash |
//! | `crate::workspace::snapshot::worktrees` | further work trees that an agent made inside its tree |
//! | `crate::workspace::snapshot::change`, `crate::workspace::snapshot::weakened` | what the work changed in all, and which tests became weaker |
//! | `crate::workspace::snapshot::repo_scan` | what the commit holds that a session starts from: knowledge, and files that memory is about |
//! | `crate::workspace::publish::integrate`, `crate::workspace::publish::site`, `crate::workspace::publish::rebase`, `crate::workspace::publish::patch`, `crate::workspace::publish::land` | the way onto the feature branch |
//! | `crate::workspace::publish::branch`, `crate::workspace::publish::squash` | whether the feature's branch, or the base that it went into, still holds what landed |
//! | `crate::workspace::publish::operations`, `crate::workspace::publish::deliver` | what a person or the feature's end asks of branches: update, revert, merge, hand-over |
//! | `crate::workspace::publish::prune` | attempt refs go when their time is over |
//! | `commands`, `ports` | the user's commands in a checkout, setup and gate; ports that are only theirs |
//! | `cache`, `crate::workspace::cache::copy`, `crate::workspace::cache::budget` | folders that setup fills once; the disk that all of it may take |
//! | `crate::workspace::cache::unused` | what nobody used for a month goes |
//! | `crate::workspace::publish::push`, `crate::workspace::git::trouble`, `error`, `crate::workspace::git::address` | pushes, what remotes refuse, and the words for it |
//! | `git`, `crate::workspace::git::environment`, `crate::workspace::git::process` | the git command line in a process group: what it sees, how long it may take |
//!
//! It leaves to others: who may integrate when, what an outcome means for a task, sandboxing of the agent.

mod cache;
mod clone;
mod commands;
mod error;
mod folder;
mod git;
mod held;
mod in_place;
mod ports;
pub mod publish;
mod record;
mod snapshot;
mod workspaces;

pub use crate::workspace::cache::CacheRule;
pub use crate::workspace::cache::unused::Forgotten;
pub use crate::workspace::clone::filters::FilterRule;
pub use crate::workspace::clone::history::History;
pub use crate::workspace::clone::pack::Untidy;
pub use crate::workspace::git::trouble::Trouble;
pub use crate::workspace::in_place::lock::{DirHolder, free_dir};
pub use crate::workspace::publish::integrate::{Decision, TASK_TRAILER};
pub use crate::workspace::publish::prune::Pruned;
pub use crate::workspace::snapshot::bulk::BulkLimits;
pub use crate::workspace::snapshot::commit::{CommitMessage, is_author};
pub use commands::CommandFailure;
pub use error::{GitError, WorkspaceError};
pub use folder::Workspace;
pub use workspaces::{KEEP_FILES_DAYS, Settings, Workspaces};

//! Where agents work, and how their work gets onto the feature branch (DESIGN 6).
//!
//! An agent gets a folder that it may wreck, `.git` included. The worker never runs git with what stands in there: it
//! has a git directory of its own for each workspace, outside the folder, and looks at the folder as a work tree only.
//! At the end of a session everything that changed is committed and pushed to the dispatch's own attempt ref; an
//! integration brings one attempt onto the feature branch, decided before it is pushed.
//!
//! | module | what it does |
//! | --- | --- |
//! | `workspaces`, `prepare`, `rescue` | [`Workspaces`]: makes workspaces, finds unpushed ones of an earlier life |
//! | `folder` | [`Workspace`]: the folder, its snapshot and push at the end |
//! | `dir`, `dir_lock` | a folder of this machine that is worked in itself, and who works there |
//! | `record`, `held` | folders, locks and the record of each workspace |
//! | `kept` | what sessions without a repository left stays for some days |
//! | `modes`, `room` | folders are removed whatever an agent made of them; room on a disk that it filled |
//! | `mirror`, `clone`, `gitdir` | the bare mirror, what borrows from it, git directories made by hand |
//! | `history` | how much of a repository is fetched |
//! | `pack` | mirrors are packed together, and nothing of them is collected |
//! | `submodules`, `gitmodules`, `gitlinks`, `lfs` | repositories and large files that belong to one |
//! | `snapshot`, `commit` | the tree on disk as a commit |
//! | `meant`, `sparse` | what an agent's index says of it: ignored files that are meant, files that are only off the disk |
//! | `pointers` | large files stay out of a history, however work has to be stored |
//! | `seal` | the tree is taken out of the reach of whoever still runs, before git looks at it |
//! | `strays`, `stray_refs` | what an agent committed elsewhere: other branches, no branch, its stash |
//! | `linked` | further work trees that an agent made inside its tree |
//! | `change`, `weakened` | what the work changed in all, and which tests became weaker |
//! | `survey` | what the commit holds that a session starts from: knowledge, and files that memory is about |
//! | `integrate`, `site`, `rebase`, `patch`, `land` | the way onto the feature branch |
//! | `branch`, `squash` | whether the feature's branch, or the base that it went into, still holds what landed |
//! | `operate`, `deliver` | what a person or the feature's end asks of branches: update, revert, merge, hand-over |
//! | `prune` | attempt refs go when their time is over |
//! | `commands`, `ports` | the user's commands in a checkout, setup and gate; ports that are only theirs |
//! | `caches`, `copy`, `budget` | folders that setup fills once; the disk that all of it may take |
//! | `unused` | what nobody used for a month goes |
//! | `push`, `trouble`, `error`, `address` | pushes, what remotes refuse, and the words for it |
//! | `git`, `environment`, `process` | the git command line in a process group: what it sees, how long it may take |
//!
//! It leaves to others: who may integrate when, what an outcome means for a task, sandboxing of the agent.

mod address;
mod branch;
mod budget;
mod bulk;
mod caches;
mod change;
mod clone;
mod commands;
mod commit;
mod copy;
mod deliver;
mod dir;
mod dir_lock;
mod environment;
mod error;
mod filters;
mod folder;
mod git;
mod gitdir;
mod gitlinks;
mod gitmodules;
mod held;
mod history;
mod integrate;
mod kept;
mod land;
mod lfs;
mod linked;
mod meant;
mod mirror;
mod modes;
mod moving;
mod operate;
mod pack;
mod patch;
mod pointers;
mod ports;
mod prepare;
mod process;
mod prune;
mod push;
mod rebase;
mod record;
mod rescue;
mod room;
mod seal;
mod site;
mod snapshot;
mod sparse;
mod squash;
mod stray_refs;
mod strays;
mod submodules;
mod survey;
mod trouble;
mod unused;
mod weakened;
mod workspaces;

pub use bulk::BulkLimits;
pub use caches::CacheRule;
pub use commands::CommandFailure;
pub use commit::{CommitMessage, is_author};
pub use dir_lock::{DirHolder, free_dir};
pub use error::{GitError, WorkspaceError};
pub use filters::FilterRule;
pub use folder::Workspace;
pub use history::History;
pub use integrate::{Decision, TASK_TRAILER};
pub use pack::Untidy;
pub use prune::Pruned;
pub use trouble::Trouble;
pub use unused::Forgotten;
pub use workspaces::{KEEP_FILES_DAYS, Settings, Workspaces};

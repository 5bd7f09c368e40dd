//! One workspace: the folder that an agent gets, and the worker's snapshot of it when the agent is gone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ralph_shared::wire::{GitOrder, LeftoverFiles, Snapshot, WorkspaceOrder};

use super::commands::{self, CommandContext, CommandFailure};
use super::error::WorkspaceError;
use super::git::Git;
use super::locked::LockedWorkspace;
use super::ports::Ports;
use super::record::{Purpose, Record, State};
use super::snapshot;
use crate::faults;
use crate::workspace::cache::{self, Origin, Shelf};
use crate::workspace::in_place::OpenDir;
use crate::workspace::settings::Settings;
use crate::workspace::snapshot::commit::{self, CommitMessage, Signature};
use crate::workspace::snapshot::quarantine::quarantine_tree;
use crate::workspace::{
    clone::{gitdir, lfs, submodules},
    in_place::leftovers,
    publish::push,
    snapshot::{bulk, change, orphan_commits},
};

/// A folder for one dispatch. This process holds its lock until the value is dropped. Dropping deletes
/// nothing, so that work that could not be pushed stays for [`super::Workspaces::unpushed`].
#[derive(Debug)]
pub struct Workspace {
    locked: LockedWorkspace,
    dispatch: String,
    tree: PathBuf,
    ports: Option<Ports>,
    repository: Option<Repository>,
    /// The folder of this machine that the session works in directly; `tree` is its path then.
    dir: Option<OpenDir>,
    /// Days to keep the files of a session that has no branch for them.
    keep_days: Option<u32>,
    /// Whether the last push failed because a server could not be reached.
    away: AtomicBool,
    /// Whether a rule of the server refused the last push.
    refused: AtomicBool,
    /// Whether the attempt gets a ref even without changes.
    pushes_empty: AtomicBool,
}

pub(super) struct StartPoint {
    /// Hex object id.
    pub start: String,
    /// The feature branch's head, or the commit that the branch begins from, where known. Hex object id.
    pub branch: Option<String>,
    pub git: Git,
}

/// The worker's side of a clone.
#[derive(Debug)]
struct Repository {
    git: Git,
    order: GitOrder,
    purpose: Purpose,
    start: String,
    /// The feature branch's head when the clone was made, or the commit that the branch begins from. Hex
    /// object id.
    branch: Option<String>,
}

impl Workspace {
    pub(super) fn scratch(dispatch: &str, locked: LockedWorkspace) -> Self {
        Self {
            tree: locked.folders().tree(),
            locked: locked.stay(),
            dispatch: dispatch.to_owned(),
            ports: ports(),
            repository: None,
            dir: None,
            keep_days: None,
            away: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            pushes_empty: AtomicBool::new(true),
        }
    }

    /// Keeps the files that the session leaves for `days`, and reports them.
    pub(super) fn keep_files_for(self, days: u32) -> Self {
        Self {
            keep_days: Some(days),
            ..self
        }
    }

    pub(super) fn dir(dispatch: &str, locked: LockedWorkspace, dir: OpenDir) -> Self {
        Self {
            tree: dir.path().to_owned(),
            dir: Some(dir),
            ..Self::scratch(dispatch, locked)
        }
    }

    pub(super) fn git(
        record: &Record,
        order: &GitOrder,
        start_point: StartPoint,
        locked: LockedWorkspace,
    ) -> Self {
        let repository = Repository {
            git: start_point.git,
            order: order.clone(),
            purpose: record.purpose,
            start: start_point.start,
            branch: start_point.branch,
        };
        Self {
            repository: Some(repository),
            ..Self::scratch(&record.dispatch, locked)
        }
    }

    pub fn dispatch(&self) -> &str {
        &self.dispatch
    }

    /// The agent's working directory.
    pub fn path(&self) -> &Path {
        &self.tree
    }

    /// An empty folder for the agent's `HOME`.
    pub fn home(&self) -> PathBuf {
        self.locked.folders().home()
    }

    /// An empty folder for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.locked.folders().tmp()
    }

    /// The folder that contains only this session's files.
    pub fn session_folder(&self) -> PathBuf {
        self.locked.folders().agent.clone()
    }

    /// The folders outside the agent's reach from which its clone and those of submodules borrow objects. A
    /// sandbox must let the agent read them.
    pub fn borrowed_objects(&self) -> Vec<PathBuf> {
        let Some(repository) = &self.repository else {
            return Vec::new();
        };
        let submodules = submodules::of(self.locked.folders()).unwrap_or_default();
        let dirs = submodules.into_iter().map(|submodule| submodule.dir);
        let mut found: Vec<PathBuf> = Vec::new();
        for dir in [repository.git.dir().to_owned()].into_iter().chain(dirs) {
            let lender = gitdir::lender(&dir);
            found.extend(lender.filter(|lender| !found.contains(lender)));
        }
        found
    }

    /// Environment variables that name this session's own ports.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.ports.iter().flat_map(Ports::variables)
    }

    /// Runs the setup commands in the checkout (SPEC 8, `[workspace] setup`), with copies of caches. Does
    /// nothing in a folder without a repository.
    ///
    /// # Errors
    /// When a command fails; the error holds the command and the end of its output.
    pub async fn set_up(&self, settings: &Settings) -> Result<(), WorkspaceError> {
        let Some(repository) = &self.repository else {
            return Ok(());
        };
        let objects = self.borrowed_objects();
        let context = self.command_context(&objects, commands::SETUP, settings);
        let Repository {
            git, order, start, ..
        } = repository;
        let shelf = Shelf::new(self.locked.folders().data(), order);
        cache::warm::restore(git, &shelf, (order, start), settings).await;
        let origin = match settings.caches.is_empty() {
            true => Origin::Attempt,
            false => Origin::of(git, order, start).await?,
        };
        match cache::set_up(context, &shelf, origin).await? {
            None => Ok(()),
            Some(failure) => Err(WorkspaceError::Setup {
                command: failure.command,
                output: failure.output,
            }),
        }
    }

    /// Runs a gate's commands in the checkout, as on a commit that is to land. Returns the first failure.
    ///
    /// # Errors
    /// When the commands can't be run.
    pub async fn try_gate(
        &self,
        gate: &[String],
        settings: &Settings,
    ) -> Result<Option<CommandFailure>, WorkspaceError> {
        let objects = self.borrowed_objects();
        commands::run(gate, self.command_context(&objects, commands::GATE, settings)).await
    }

    fn command_context<'a>(
        &'a self,
        objects: &'a [PathBuf],
        purpose: &'static str,
        settings: &'a Settings,
    ) -> CommandContext<'a> {
        CommandContext {
            tree: &self.tree,
            objects,
            folders: self.locked.folders(),
            by_shared_paths: false,
            ports: self.ports.as_ref(),
            purpose,
            settings,
        }
    }

    /// Whether the folder is a shared one of this machine.
    pub(super) fn is_shared(&self) -> bool {
        self.dir.is_some()
    }

    /// The worker's git directory; `None` without a repository.
    pub(super) fn git_of(&self) -> Option<&Git> {
        self.repository.as_ref().map(|repository| &repository.git)
    }

    /// The commit that the work started from. Hex object id; `None` without a repository.
    pub fn start(&self) -> Option<&str> {
        self.repository
            .as_ref()
            .map(|repository| repository.start.as_str())
    }

    /// The commit that its feature begins from. Hex object id; `None` without a repository.
    pub(super) fn base(&self) -> Option<&str> {
        self.repository
            .as_ref()
            .map(|repository| repository.order.base.as_str())
    }

    /// Commits all changes, untracked files included and ignored ones not, and pushes the commit to the
    /// dispatch's attempt ref. Without changes the ref is created at the start, except after
    /// [`Self::push_nothing_empty`]. Commits that the agent made elsewhere go to refs beside that one. Safe
    /// to repeat. The agent's processes must have ended. A failure is recorded in `push_error`, or with the
    /// affected commit; the folder then has to stay. For a throw-away workspace only the changes are listed.
    pub async fn finish(&self, message: &CommitMessage) -> Snapshot {
        self.finish_within(message, std::future::pending()).await
    }

    /// As [`Self::finish`], but stops when `time_is_up`; unpushed work stays for later.
    pub async fn finish_within(
        &self,
        message: &CommitMessage,
        time_is_up: impl Future<Output = ()>,
    ) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.away.store(false, Ordering::Relaxed);
        self.refused.store(false, Ordering::Relaxed);
        if let Some(dir) = &self.dir {
            dir.describe(&mut snapshot).await;
        }
        if let Some(days) = self.keep_days {
            snapshot.left = self.keep(days).await;
        }
        if let Some(repository) = &self.repository {
            snapshot.start = Some(repository.start.clone());
            let finished = tokio::select! {
                finished = self.finish_in(repository, message, &mut snapshot) => Some(finished),
                () = time_is_up => None,
            };
            let (error, away) = match finished {
                Some(Ok(())) => return snapshot,
                Some(Err(error)) => {
                    let refused = !error.retry_can_help() && !error.is_elsewhere();
                    self.refused.store(refused, Ordering::Relaxed);
                    (error.to_string(), error.is_away())
                }
                None => ("there was no more time to push it".to_owned(), true),
            };
            tracing::warn!(dispatch = %self.dispatch, error, "failed to push a workspace's work");
            snapshot.push_error = Some(error);
            self.away.store(away, Ordering::Relaxed);
        }
        snapshot
    }

    async fn keep(&self, days: u32) -> Option<LeftoverFiles> {
        let data = self.locked.folders().data().to_owned();
        let (dispatch, tree) = (self.dispatch.clone(), self.tree.clone());
        let kept = tokio::task::spawn_blocking(move || leftovers::keep(&data, &dispatch, &tree, days));
        kept.await.ok().flatten()
    }

    /// Whether the last [`Self::finish`] failed because a server could not be reached: waiting can help.
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Makes [`Self::finish`] push nothing where nothing changed. For a session without any turn: the next
    /// attempt starts where this one did.
    pub fn push_nothing_empty(&self) {
        self.pushes_empty.store(false, Ordering::Relaxed);
    }

    /// Whether a rule of the server refused the last [`Self::finish`], and the work was committed at least
    /// `days` ago. Nobody changed the rule in that time, and the folder would otherwise stay for ever.
    pub fn is_given_up(&self, days: u32) -> bool {
        let longest = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        self.refused.load(Ordering::Relaxed) && self.locked.folders().record_age() >= longest
    }

    async fn finish_in(
        &self,
        repository: &Repository,
        message: &CommitMessage,
        snapshot: &mut Snapshot,
    ) -> Result<(), WorkspaceError> {
        let Repository {
            git,
            order,
            purpose,
            start,
            branch,
        } = repository;
        let staged = snapshot::stage(git, &order.base, start, self.locked.folders()).await?;
        staged.describe(snapshot);
        if *purpose == Purpose::ThrowAway {
            return Ok(());
        }
        let commit = if staged.changed.is_empty() {
            start.clone()
        } else {
            self.commit_once(repository, &staged.tree, message).await?
        };
        let landed = order.landed.as_ref().map(|landed| landed.commit.as_str());
        let known = [Some(order.base.as_str()), branch.as_deref(), landed];
        let attempt = orphan_commits::Attempt {
            name: &order.attempt_ref,
            commit: &commit,
            start,
            known: known.into_iter().flatten().collect(),
        };
        if staged.changed.is_empty() && !self.pushes_empty.load(Ordering::Relaxed) {
            snapshot.strays = orphan_commits::push(git, &attempt, self.locked.folders()).await;
            if snapshot.strays.is_empty() {
                return Ok(());
            }
        }
        if !staged.changed.is_empty() {
            let new = bulk::bulk(git, start, &commit).await?;
            snapshot.bulk = new.iter().map(bulk::in_words).collect();
        }
        snapshot.commit = Some(commit.clone());
        snapshot.change = change::change(git, branch.as_deref(), start, &commit, &order.gate)
            .await
            .inspect_err(|error| {
                tracing::warn!(dispatch = %self.dispatch, %error, "failed to compute a task's change");
            })
            .ok();
        faults::point("snapshot.before_push");
        lfs::upload(git, start, &commit, &order.attempt_ref).await?;
        push::create(git, &commit, &order.attempt_ref).await?;
        faults::point("snapshot.after_push");
        snapshot.pushed_ref = Some(order.attempt_ref.clone());
        if snapshot.strays.is_empty() {
            snapshot.strays = orphan_commits::push(git, &attempt, self.locked.folders()).await;
        }
        if !snapshot.is_pushed() {
            return Ok(());
        }
        let state = State::Pushed {
            start: start.clone(),
            commit,
            tree: staged.tree,
        };
        self.write_state(repository, state)
    }

    /// Commits `tree`, or returns the commit that an earlier try made of it: the attempt ref may already hold
    /// that one.
    async fn commit_once(
        &self,
        repository: &Repository,
        tree: &str,
        message: &CommitMessage,
    ) -> Result<String, WorkspaceError> {
        let Repository {
            git, order, start, ..
        } = repository;
        let record = self.locked.folders().read()?;
        if let Some(commit) = record.and_then(|record| record.state.commit_of(tree)) {
            return Ok(commit);
        }
        faults::point("snapshot.before_commit");
        let author = commit::author(git);
        let message = message.render(&order.trailers);
        let commit = commit::commit_tree(git, tree, &[start], &message, &author, Signature::Never).await?;
        let state = State::Committed {
            start: start.clone(),
            commit: commit.clone(),
            tree: tree.to_owned(),
        };
        self.write_state(repository, state)?;
        Ok(commit)
    }

    fn write_state(&self, repository: &Repository, state: State) -> Result<(), WorkspaceError> {
        self.locked.folders().write(&Record {
            dispatch: self.dispatch.clone(),
            order: WorkspaceOrder::Git(repository.order.clone()),
            purpose: repository.purpose,
            state,
        })
    }

    /// Paths of tracked files that differ from the start, lossily as UTF-8; in a shared folder, paths of all
    /// changed files. If there are any, a verdict on the start is void (SPEC 5).
    pub async fn changed_tracked_files(&self) -> Result<Vec<String>, WorkspaceError> {
        if let Some(dir) = &self.dir {
            return Ok(dir.changed().await);
        }
        let Some(Repository { git, start, .. }) = &self.repository else {
            return Ok(Vec::new());
        };
        quarantine_tree(self.locked.folders())?;
        git.run("update-index")
            .args(["-q", "--refresh"])
            .accept(&[0, 1])
            .output()
            .await?;
        // For dirty submodules git would use filters from their configuration, which a session may have
        // written. Only the commits of submodules count.
        let changed = git
            .run("diff-index")
            .args([
                "-z",
                "--name-only",
                "--no-renames",
                "--ignore-submodules=dirty",
                start,
            ])
            .output()
            .await?;
        Ok(changed.parts())
    }

    /// Deletes the workspace, pushed or not.
    ///
    /// # Errors
    /// When part of it can't be deleted.
    pub async fn remove(self) -> Result<(), WorkspaceError> {
        self.locked.remove().await
    }
}

/// Reserves ports for a session. The session runs without when none are free.
pub(super) fn ports() -> Option<Ports> {
    let taken = Ports::take();
    if !matches!(taken, Ok(Some(_))) {
        tracing::warn!(?taken, "no free ports for a session");
    }
    taken.ok().flatten()
}

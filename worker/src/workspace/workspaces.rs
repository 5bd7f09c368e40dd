//! All workspaces of one data folder: making them, and finding those whose work an earlier life didn't push.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_shared::wire::{GitOrder, Snapshot, WorkspaceOrder};

use super::address;
use super::clone::{self, AgentClone};
use super::commit::{self, CommitMessage};
use super::environment::{Bounded, Environment};
use super::error::WorkspaceError;
use super::folder::Workspace;
use super::git::Git;
use super::gitdir::ObjectFormat;
use super::mirror::{self, Fetched, Mirror, Wanted};
use super::record::{self, Folders, Purpose, Record, State};
use crate::faults;

/// Bounds and environment of what runs for workspaces.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Longest run of a git command that talks to a remote.
    pub remote_bound: Duration,
    /// Longest run of any other git command.
    pub local_bound: Duration,
    /// Longest run of one command of an integration's gate.
    pub gate_bound: Duration,
    /// What the gate's commands find in their environment besides a minimal one.
    pub gate_env: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            remote_bound: Duration::from_secs(15 * 60),
            local_bound: Duration::from_secs(10 * 60),
            gate_bound: Duration::from_secs(30 * 60),
            gate_env: BTreeMap::new(),
        }
    }
}

/// The workspaces of one data folder. Cheap to clone; several processes may share a data folder.
#[derive(Debug, Clone)]
pub struct Workspaces {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    data: PathBuf,
    environment: Arc<Environment>,
    settings: Settings,
}

impl Workspaces {
    /// Opens or makes the workspaces below `data`, with default settings.
    ///
    /// # Errors
    /// When git is missing or older than 2.38, or the folder can't be made.
    pub async fn open(data: &Path) -> Result<Self, WorkspaceError> {
        Self::open_with(data, Settings::default()).await
    }

    /// Opens or makes the workspaces below `data`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_with(data: &Path, settings: Settings) -> Result<Self, WorkspaceError> {
        record::make_private(data)?;
        let data = fs::canonicalize(data).map_err(WorkspaceError::io("find", data))?;
        for folder in [
            record::workspaces(&data),
            record::records(&data),
            record::mirrors(&data),
        ] {
            record::make_private(&folder)?;
        }
        let time = Bounded {
            local: settings.local_bound,
            remote: settings.remote_bound,
        };
        let environment = Environment::probe(time).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                data,
                environment,
                settings,
            }),
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Makes the workspace of a dispatch whose changes are work: for git a clone checked out at the order's start,
    /// else at the feature branch's head, else at the base.
    ///
    /// # Errors
    /// When the repository can't be reached or has no such commits, or the dispatch has a workspace that holds work.
    pub async fn prepare(&self, dispatch: &str, order: &WorkspaceOrder) -> Result<Workspace, WorkspaceError> {
        self.prepare_for(dispatch, order, Purpose::Work).await
    }

    /// Makes a workspace whose changes are thrown away: for sessions that only read or judge (SPEC 5).
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub async fn prepare_throw_away(
        &self,
        dispatch: &str,
        order: &WorkspaceOrder,
    ) -> Result<Workspace, WorkspaceError> {
        self.prepare_for(dispatch, order, Purpose::ThrowAway).await
    }

    async fn prepare_for(
        &self,
        dispatch: &str,
        order: &WorkspaceOrder,
        purpose: Purpose,
    ) -> Result<Workspace, WorkspaceError> {
        let (folders, lock, mut record) = self.take(dispatch, order, purpose)?;
        let WorkspaceOrder::Git(git_order) = order else {
            return Ok(Workspace::scratch(dispatch, folders, lock));
        };
        check(git_order)?;
        faults::point("prepare.before_fetch");
        let feature_ref = feature_ref(git_order);
        let mut wanted = Wanted {
            refs: vec![&feature_ref],
            base: &git_order.base,
            commit: None,
        };
        wanted.refs.extend(git_order.start_ref.as_deref());
        wanted.commit = git_order.start.as_deref();
        let mirror = self.mirror(git_order);
        let mut fetched = mirror.fetch(&wanted).await?;
        let git = self.git(&folders, git_order).with_tree(folders.tree());
        let start = start_of(&fetched, git_order, &mirror).await?;
        faults::point("prepare.before_checkout");
        match clone::check_out(&git, &start, &mirror.objects()).await {
            Err(WorkspaceError::Git(error)) if error.suspects_objects() => {
                fetched = mirror.rebuild(&wanted).await?;
                clone::check_out(&git, &start, &mirror.objects()).await?;
            }
            checked_out => checked_out?,
        }
        let agent = AgentClone {
            branch: &git_order.feature_branch,
            start: &start,
            head: fetched.refs.first().and_then(Option::as_deref),
            address: &git_order.repository.address,
            author: &commit::author(&git, git_order.author.as_deref()),
        };
        agent.write(&git, &folders.tree(), &mirror.objects())?;
        record.state = State::Ready { start: start.clone() };
        folders.write(&record)?;
        faults::point("prepare.ready");
        Ok(Workspace::git(&record, git_order, &start, folders, lock, git))
    }

    /// Takes the dispatch's folders for this process, empty, with a first record.
    pub(super) fn take(
        &self,
        dispatch: &str,
        order: &WorkspaceOrder,
        purpose: Purpose,
    ) -> Result<(Folders, fs::File, Record), WorkspaceError> {
        let busy = || WorkspaceError::Busy {
            dispatch: dispatch.to_owned(),
        };
        let folders = Folders::new(&self.shared.data, dispatch)?;
        let lock = folders.lock()?.ok_or_else(busy)?;
        if folders.read().is_some_and(|record| record.holds_work().is_some()) {
            return Err(busy());
        }
        folders.clear()?;
        folders.make()?;
        let record = Record {
            dispatch: dispatch.to_owned(),
            order: order.clone(),
            purpose,
            state: State::Preparing,
        };
        folders.write(&record)?;
        Ok((folders, lock, record))
    }

    /// The worker's own git directory for a workspace.
    pub(super) fn git(&self, folders: &Folders, order: &GitOrder) -> Git {
        Git::new(
            self.shared.environment.clone(),
            folders.git(),
            &order.repository.address,
        )
    }

    pub(super) fn mirror(&self, order: &GitOrder) -> Mirror {
        let address = &order.repository.address;
        let dir = record::mirrors(&self.shared.data).join(address::mirror_name(address));
        let git = Git::new(self.shared.environment.clone(), dir, address);
        Mirror::new(git, ObjectFormat::of(&order.base), address)
    }

    /// Workspaces that no living process holds and whose work is not known to be pushed: of an earlier life that was
    /// killed, or whose push failed. What else lies in the data folder without an owner is deleted.
    pub async fn unpushed(&self) -> Vec<Workspace> {
        let mut found = Vec::new();
        let records = record::records(&self.shared.data);
        let entries = fs::read_dir(&records).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            match self.adopt(&name) {
                Ok(workspace) => found.extend(workspace),
                Err(error) => tracing::error!(dispatch = %name, %error, "failed to look into a workspace"),
            }
        }
        if fs::read_dir(&records).is_ok_and(|mut left| left.next().is_none()) {
            mirror::delete_broken(&record::mirrors(&self.shared.data));
        }
        found
    }

    fn adopt(&self, dispatch: &str) -> Result<Option<Workspace>, WorkspaceError> {
        let folders = Folders::new(&self.shared.data, dispatch)?;
        let Some(lock) = folders.lock()? else {
            return Ok(None);
        };
        let record = folders.read();
        let work = record
            .as_ref()
            .and_then(|record| Some((record, record.holds_work()?)));
        let (Some((record, order)), true) = (work, folders.git().is_dir()) else {
            folders.remove()?;
            return Ok(None);
        };
        let (State::Ready { start } | State::Committed { start, .. }) = &record.state else {
            return Ok(None);
        };
        let git = self.git(&folders, order).with_tree(folders.tree());
        Ok(Some(Workspace::git(record, order, start, folders, lock, git)))
    }

    /// Pushes what [`Self::unpushed`] finds and deletes what was pushed. The dispatches and what became of them; one
    /// with a `push_error` stays for the next time.
    pub async fn rescue_unpushed(&self, message: &CommitMessage) -> Vec<(String, Snapshot)> {
        let mut rescued = Vec::new();
        for workspace in self.unpushed().await {
            let snapshot = workspace.finish(message).await;
            let dispatch = workspace.dispatch().to_owned();
            if snapshot.push_error.is_none()
                && let Err(error) = workspace.remove().await
            {
                tracing::warn!(%dispatch, %error, "failed to delete a workspace");
            }
            rescued.push((dispatch, snapshot));
        }
        rescued
    }
}

/// The feature branch's whole name.
pub(super) fn feature_ref(order: &GitOrder) -> String {
    format!("refs/heads/{}", order.feature_branch)
}

/// Refuses what git would take for something else.
pub(super) fn check(order: &GitOrder) -> Result<(), WorkspaceError> {
    let wrong =
        |what: &str, value: &str| Err(WorkspaceError::Order(format!("{what} `{value}` is not usable")));
    let address = &order.repository.address;
    if address.is_empty() || address.starts_with('-') || address.contains(['\n', '\0']) {
        return wrong("the repository's address", &address::public(address));
    }
    let feature_ref = feature_ref(order);
    let refs = [
        Some(&feature_ref),
        Some(&order.attempt_ref),
        order.start_ref.as_ref(),
    ];
    if let Some(name) = refs.into_iter().flatten().find(|name| !address::is_ref(name)) {
        return wrong("the ref", name);
    }
    let ids = [Some(&order.base), order.start.as_ref()];
    match ids.into_iter().flatten().find(|id| !address::is_object_id(id)) {
        Some(id) => wrong("the commit", id),
        None => Ok(()),
    }
}

/// Where the work starts. An earlier attempt's commit that is nowhere any more (its ref was pruned) is done without.
async fn start_of(fetched: &Fetched, order: &GitOrder, mirror: &Mirror) -> Result<String, WorkspaceError> {
    let head = fetched.refs.first().cloned().flatten();
    let attempt = match &order.start {
        Some(_) => fetched.commit.clone(),
        None => fetched.refs.get(1).cloned().flatten(),
    };
    if attempt.is_none() && (order.start.is_some() || order.start_ref.is_some()) {
        tracing::warn!(start = ?order.start, start_ref = ?order.start_ref, "earlier attempt is not at the remote");
    }
    match attempt.or(head).or_else(|| fetched.base.clone()) {
        Some(start) => Ok(start),
        None => Err(missing_base(order, mirror).await),
    }
}

/// Why there is no base.
pub(super) async fn missing_base(order: &GitOrder, mirror: &Mirror) -> WorkspaceError {
    let address = address::public(&order.repository.address);
    if mirror.remote_is_empty().await {
        return WorkspaceError::EmptyRepository { address };
    }
    WorkspaceError::CommitMissing {
        address,
        commit: order.base.clone(),
        role: "the feature's base",
    }
}

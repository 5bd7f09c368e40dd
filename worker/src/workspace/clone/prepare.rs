//! Preparation of a workspace.

use ralph_shared::wire::{GitOrder, WorkspaceOrder};

use super::mirror::{FetchRequest, Fetched, Mirror};
use super::submodules;
use crate::faults;
use crate::workspace::clone::{self, AgentClone, Start};
use crate::workspace::error::WorkspaceError;
use crate::workspace::folder::{StartPoint, Workspace};
use crate::workspace::record::{Folders, Purpose, Record, State};
use crate::workspace::workspaces::{self, Workspaces};
use crate::workspace::{
    git::address,
    publish::{branch, rebase},
    snapshot::commit,
};

impl Workspaces {
    /// Prepares the workspace of a dispatch whose changes are work. Waits until a folder of this machine is
    /// free. With git, makes a clone checked out at the order's start, or else at the feature branch's head,
    /// or else at the base.
    ///
    /// # Errors
    /// When the repository can't be reached or lacks the commits, or the dispatch already has a workspace
    /// with work.
    pub async fn prepare(&self, dispatch: &str, order: &WorkspaceOrder) -> Result<Workspace, WorkspaceError> {
        self.prepare_for(dispatch, order, Purpose::Work).await
    }

    /// Prepares a workspace whose changes are thrown away: for sessions that only read or judge (SPEC 5).
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
        self.make_room().await?;
        let (locked, record) = self.take(dispatch, order, purpose)?;
        let order = match order {
            WorkspaceOrder::Git(order) => order,
            WorkspaceOrder::Scratch => {
                let workspace = Workspace::scratch(dispatch, locked);
                return Ok(match purpose {
                    Purpose::Work => workspace.keep_files_for(self.settings().keep_files_days),
                    Purpose::ThrowAway => workspace,
                });
            }
            WorkspaceOrder::Dir(order) => {
                let dir = self.open_dir(dispatch, order).await?;
                return Ok(Workspace::dir(dispatch, locked, dir));
            }
        };
        match self.clone_for(locked.folders(), record, order).await {
            Ok((record, start_point)) => Ok(Workspace::git(&record, order, start_point, locked)),
            Err(error) => {
                if let Err(error) = locked.remove().await {
                    tracing::warn!(%dispatch, %error, "failed to delete a workspace");
                }
                Err(error)
            }
        }
    }

    /// Makes the clone. Returns its record and start.
    async fn clone_for(
        &self,
        folders: &Folders,
        mut record: Record,
        order: &GitOrder,
    ) -> Result<(Record, StartPoint), WorkspaceError> {
        workspaces::check(order)?;
        let feature_ref = workspaces::feature_ref(order);
        let refs = [feature_ref.as_str()].into_iter();
        let wanted = FetchRequest {
            refs: refs.chain(order.start_ref.as_deref()).collect(),
            base: &order.base,
            commit: order.start.as_deref(),
        };
        let mirror = self.mirror(order);
        let tree = folders.tree();
        let git = self.git(folders, order).with_tree(tree.clone());
        faults::point("prepare.before_fetch");
        let mut fetched = fetch(&mirror, &wanted, order.onto_head).await?;
        if let Some(Some(head)) = fetched.refs.first()
            && let Some(commit) =
                branch::landed_before(&mirror.git, order, head, fetched.base.as_deref()).await?
        {
            let empty = rebase::is_empty(&mirror.git, &commit).await?;
            return Err(WorkspaceError::Landed { commit, empty });
        }
        let landed = landed_of(&fetched, order, &mirror).await?;
        let start = start_of(&fetched, landed.as_deref(), order, &mirror).await?;
        faults::point("prepare.before_checkout");
        let checked_out = match clone::check_out(&git, &start, &order.base, &mirror.objects()).await {
            Err(WorkspaceError::Git(error)) if error.suspects_objects() => {
                fetched = mirror.rebuild(&wanted).await?;
                clone::check_out(&git, &start, &order.base, &mirror.objects()).await?
            }
            checked_out => checked_out?,
        };
        let Start {
            commit: start,
            brings,
        } = start;
        let agent = AgentClone {
            branch: &order.feature_branch,
            start: &start,
            head: fetched.refs.first().and_then(Option::as_deref),
            address: &order.repository.address,
            author: &commit::author(&git),
        };
        agent.write(&git, &tree, &mirror.objects())?;
        if let (Some(conflict), Some(brought)) = (&checked_out.conflict, &brings) {
            agent.unmerge(&git, &tree, conflict, brought).await?;
        }
        submodules::check_out(self, &git, order, &checked_out.tree, folders).await?;
        record.state = State::Ready { start: start.clone() };
        folders.write(&record)?;
        faults::point("prepare.ready");
        let branch = fetched.refs.first().cloned().flatten();
        let branch = branch.or(landed).or(fetched.base);
        Ok((record, StartPoint { start, branch, git }))
    }
}

async fn fetch(
    mirror: &Mirror,
    wanted: &FetchRequest<'_>,
    all_between: bool,
) -> Result<Fetched, WorkspaceError> {
    let fetched = match all_between {
        true => mirror.fetch_all_between(wanted).await?,
        false => mirror.fetch(wanted).await?,
    };
    if fetched.base.is_none() {
        // The fetched history is too short for the base, which holds the Git LFS configuration.
        let alone = FetchRequest {
            refs: Vec::new(),
            base: wanted.base,
            commit: None,
        };
        if let Err(error) = mirror.fetch(&alone).await {
            tracing::warn!(%error, "failed to fetch the feature's base");
        }
    }
    Ok(fetched)
}

/// The start of the work. Ignores an earlier attempt's commit that no longer exists because its ref was
/// pruned.
async fn start_of(
    fetched: &Fetched,
    landed: Option<&str>,
    order: &GitOrder,
    mirror: &Mirror,
) -> Result<Start, WorkspaceError> {
    let head = fetched.refs.first().cloned().flatten();
    let attempt = match &order.start {
        Some(_) => fetched.commit.clone(),
        None => fetched.refs.get(1).cloned().flatten(),
    };
    if attempt.is_none() && (order.start.is_some() || order.start_ref.is_some()) {
        tracing::warn!(start = ?order.start, start_ref = ?order.start_ref, "the earlier attempt is no longer at the remote");
    }
    if let (true, Some(head), Some(attempt)) = (order.onto_head, &head, &attempt) {
        return Ok(Start {
            commit: head.clone(),
            brings: Some(attempt.clone()),
        });
    }
    let head = head.or_else(|| landed.map(str::to_owned));
    match attempt.or(head).or_else(|| fetched.base.clone()) {
        Some(commit) => Ok(Start { commit, brings: None }),
        None => Err(missing_base(order, mirror).await),
    }
}

/// The last landed commit, if its branch is gone, the base doesn't contain it, and it can still be fetched.
/// Work continues from it, although nothing can land before the branch is back.
async fn landed_of(
    fetched: &Fetched,
    order: &GitOrder,
    mirror: &Mirror,
) -> Result<Option<String>, WorkspaceError> {
    let Some(landed) = &order.landed else {
        return Ok(None);
    };
    if fetched.refs.first().is_some_and(Option::is_some) {
        return Ok(None);
    }
    let wanted = FetchRequest {
        refs: Vec::new(),
        base: &order.base,
        commit: Some(&landed.commit),
    };
    let found = mirror.fetch(&wanted).await?.commit;
    let is_in_base = branch::went_into(&mirror.git, &landed.commit, &order.base).await?;
    Ok(found.filter(|_| !is_in_base))
}

/// The error for a missing base.
pub(in crate::workspace) async fn missing_base(order: &GitOrder, mirror: &Mirror) -> WorkspaceError {
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

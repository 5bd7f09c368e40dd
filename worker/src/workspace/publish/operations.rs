//! Branch operations for a person or the end of a feature (DESIGN 6): merge the base in, revert a landing,
//! and merge or hand over the feature. They need no turn: each push names the branch's expected old commit,
//! and a repeated operation finds its earlier result.

use std::collections::BTreeMap;

use ralph_shared::wire::{
    Decided, EndReason, GitOperation, GitOperationOrder, GitOrder, IntegrationEnd, IntegrationReport,
    WorkspaceOrder,
};
use tokio::sync::watch;

use super::integrate::{Decision, end_requested};
use super::rebase::{self, Rebased};
use super::site::Site;
use super::{branch, land, push};
use crate::faults;
use crate::workspace::clone::gitdir::ObjectFormat;
use crate::workspace::clone::mirror::FetchRequest;
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::address;
use crate::workspace::record::Purpose;
use crate::workspace::snapshot::commit::{self, CommitMessage, Signature};
use crate::workspace::snapshot::commit::{REVERT_TRAILER, TASK_TRAILER};
use crate::workspace::workspaces::{self, Workspaces};

/// Number of tries while a branch keeps moving.
const TRIES: u32 = 8;

impl Workspaces {
    /// Runs `order` on the branches of `git`. Before each push, `decide` tells whether the dispatch may still
    /// do it. `end` can end everything before that answer.
    pub async fn operate<F, D>(
        &self,
        dispatch: &str,
        git: &GitOrder,
        order: &GitOperationOrder,
        decide: F,
        mut end: watch::Receiver<Option<EndReason>>,
    ) -> IntegrationReport
    where
        F: Fn(Decided) -> D + Send + Sync,
        D: Future<Output = Decision> + Send,
    {
        let failed = |error: WorkspaceError| IntegrationEnd::Failed {
            retry: error.retry_can_help(),
            away: error.is_elsewhere(),
            message: format!("failed in {}: {error}", address::public(&git.repository.address)),
        };
        let workspace = WorkspaceOrder::Git(git.clone());
        let taken = workspaces::check(git).and_then(|()| self.take(dispatch, &workspace, Purpose::ThrowAway));
        let locked = match taken {
            Ok((locked, _)) => locked,
            Err(error) => return failed(error).into(),
        };
        let site = Site::new(self, locked.folders(), git);
        let running = Operation { site, order };
        let ended = running.run(decide, &mut end).await.unwrap_or_else(failed);
        let report = IntegrationReport {
            steps: running.site.take_times(),
            ..running.named(ended).into()
        };
        if let Err(error) = locked.remove().await {
            tracing::warn!(%dispatch, %error, "failed to delete the folder of a git operation");
        }
        report
    }
}

pub(in crate::workspace) struct Operation<'a> {
    pub(in crate::workspace) site: Site<'a>,
    pub(in crate::workspace) order: &'a GitOperationOrder,
}

pub(in crate::workspace) struct RefUpdate {
    /// The branch's whole name.
    pub target: String,
    pub old: Option<String>,
    pub new: String,
    pub empty: bool,
    /// The base's head, if the update merges the base in.
    pub base: Option<String>,
}

/// The next step of an operation, given the branches' current heads.
pub(in crate::workspace) enum Planned {
    Change(RefUpdate),
    /// The user's own command delivers the commit.
    Deliver {
        branch: String,
        head: String,
    },
    Ended(IntegrationEnd),
}

/// A failure that no retry can solve.
pub(in crate::workspace) fn failed(message: String) -> Planned {
    Planned::Ended(IntegrationEnd::Failed {
        message,
        retry: false,
        away: false,
    })
}

/// The end when the commit is already in place, or not needed there.
pub(in crate::workspace) fn nothing_to_do(commit: String) -> Planned {
    Planned::Ended(IntegrationEnd::Merged { commit, empty: true })
}

impl Operation<'_> {
    /// A merge into another branch is not a landing on the feature's branch.
    fn named(&self, ended: IntegrationEnd) -> IntegrationEnd {
        match (ended, &self.order.operation) {
            (IntegrationEnd::Merged { commit, empty }, GitOperation::Merge { .. }) => {
                IntegrationEnd::Delivered {
                    commit,
                    landed: self
                        .site
                        .git_order
                        .landed
                        .as_ref()
                        .map(|landed| landed.commit.clone()),
                    empty,
                }
            }
            (ended, _) => ended,
        }
    }

    async fn run<F, D>(
        &self,
        decide: F,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> Result<IntegrationEnd, WorkspaceError>
    where
        F: Fn(Decided) -> D,
        D: Future<Output = Decision>,
    {
        self.site.make()?;
        if let GitOperation::Check { commit, .. } = &self.order.operation {
            return self.check(commit, end).await;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let planned = tokio::select! {
                biased;
                reason = end_requested(end) => return Ok(IntegrationEnd::Told { reason }),
                planned = self.plan() => planned?,
            };
            let change = match planned {
                Planned::Change(change) => change,
                Planned::Ended(ended) => return Ok(ended),
                Planned::Deliver { branch, head } => {
                    return self.run_delivery(&branch, head, decide, end).await;
                }
            };
            let gated = tokio::select! {
                biased;
                reason = end_requested(end) => return Ok(IntegrationEnd::Told { reason }),
                gated = self.gate(&change.new) => gated?,
            };
            if let Some(ended) = gated {
                return Ok(ended);
            }
            let zeros = || ObjectFormat::of(&change.new).zeros();
            let decided = Decided {
                old: change.old.clone().unwrap_or_else(zeros),
                new: change.new.clone(),
                new_ref: self.site.git_order.attempt_ref.clone(),
            };
            faults::point("operate.before_decide");
            if let Some(ended) = decide(decided.clone()).await.refused() {
                return Ok(ended);
            }
            faults::point("operate.after_decide");
            let ended = land::land(&self.site, &change.target, &decided, change.empty).await?;
            return Ok(match (ended, change.base) {
                (IntegrationEnd::Merged { commit, .. }, Some(base)) => IntegrationEnd::Updated {
                    commit: Some(commit),
                    base,
                },
                (IntegrationEnd::Void { .. }, _) if tries < TRIES => continue,
                (ended, _) => ended,
            });
        }
    }

    /// Runs the gate on a commit, unless it already passed on the same tree.
    async fn gate(&self, new: &str) -> Result<Option<IntegrationEnd>, WorkspaceError> {
        let tree = rebase::tree_of(&self.site.git, new).await?;
        if self.order.passed.iter().any(|known| known.tree == tree) {
            return Ok(None);
        }
        let GitOperationOrder { gate, steps, .. } = self.order;
        self.site.gate(gate, steps, new).await
    }

    async fn plan(&self) -> Result<Planned, WorkspaceError> {
        match &self.order.operation {
            GitOperation::Update { branch, .. } => self.update(branch).await,
            GitOperation::Revert { task, commit, .. } => self.revert(&task.to_string(), commit).await,
            GitOperation::Merge { branch, how, .. } => self.merge(branch, *how).await,
            GitOperation::Check { .. } => Ok(failed("a check changes no branch".to_owned())),
        }
    }

    /// Runs the gate on a commit, in the same way as on one that is to land.
    async fn check(
        &self,
        commit: &str,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> Result<IntegrationEnd, WorkspaceError> {
        let wanted = FetchRequest {
            refs: Vec::new(),
            base: &self.site.git_order.base,
            commit: Some(commit),
        };
        let tried = async {
            if self.site.fetch(&wanted).await?.commit.is_none() {
                return Err(WorkspaceError::CommitMissing {
                    address: address::public(&self.site.git_order.repository.address),
                    commit: commit.to_owned(),
                    role: "the base commit to try the gate on",
                });
            }
            faults::point("check.before_gate");
            let GitOperationOrder { gate, steps, .. } = self.order;
            let gated = self.site.gate(gate, steps, commit).await;
            faults::point("check.after_gate");
            gated
        };
        tokio::select! {
            biased;
            reason = end_requested(end) => Ok(IntegrationEnd::Told { reason }),
            tried = tried => Ok(tried?.unwrap_or(IntegrationEnd::Checked)),
        }
    }

    /// The current heads of the feature's branch and of `branch`, and the feature's base where known.
    pub(in crate::workspace) async fn heads(
        &self,
        branch: &str,
    ) -> Result<[Option<String>; 3], WorkspaceError> {
        let branch = format!("refs/heads/{branch}");
        let wanted = FetchRequest {
            refs: vec![&self.site.feature_ref, &branch],
            base: &self.site.git_order.base,
            commit: None,
        };
        let fetched = self.site.fetch(&wanted).await?;
        if let (None, Some(landed)) = (
            fetched.refs.first().and_then(Option::as_ref),
            &self.site.git_order.landed,
        ) {
            // The last landing tells whether the branch was merged elsewhere.
            let wanted = FetchRequest {
                refs: Vec::new(),
                commit: Some(&landed.commit),
                ..wanted
            };
            if let Err(error) = self.site.fetch(&wanted).await {
                tracing::debug!(%error, "failed to fetch the last landing");
            }
        }
        let mut refs = fetched.refs.into_iter();
        Ok([refs.next().flatten(), refs.next().flatten(), fetched.base])
    }

    pub(in crate::workspace) fn no_branch(&self, branch: &str) -> Planned {
        let address = address::public(&self.site.git_order.repository.address);
        failed(format!("there is no branch `{branch}` in {address}"))
    }

    async fn update(&self, branch: &str) -> Result<Planned, WorkspaceError> {
        let [head, base, feature_base] = self.heads(branch).await?;
        let git = &self.site.git;
        let Some(base) = base else {
            return Ok(self.no_branch(branch));
        };
        let was_merged = match &self.site.git_order.landed {
            Some(landed) if head.is_none() => branch::went_into(git, &landed.commit, &base).await?,
            _ => false,
        };
        if !was_merged
            && let Some(message) =
                branch::objection(git, self.site.git_order, head.as_deref(), feature_base.as_deref()).await?
        {
            return Ok(failed(message));
        }
        let Some(head) = head else {
            return Ok(Planned::Ended(IntegrationEnd::Updated { commit: None, base }));
        };
        if rebase::is_ancestor(git, &base, &head).await? {
            let commit = Some(head);
            return Ok(Planned::Ended(IntegrationEnd::Updated { commit, base }));
        }
        let brought = self.as_merged(&base, &head).await?;
        let (tree, empty) = match rebase::rebase(git, &head, &brought).await? {
            Rebased::Clean { tree, empty } => (tree, empty),
            Rebased::Conflict(conflict) => {
                let source_ref = Some(format!("refs/heads/{branch}"));
                return self.conflicts(conflict, &head, base, source_ref).await;
            }
        };
        let new = self.commit(&tree, &[&head, &base], &[]).await?;
        Ok(Planned::Change(RefUpdate {
            target: self.site.feature_ref.clone(),
            old: Some(head),
            new,
            empty,
            base: Some(base),
        }))
    }

    async fn conflicts(
        &self,
        conflict: rebase::Conflict,
        head: &str,
        source: String,
        source_ref: Option<String>,
    ) -> Result<Planned, WorkspaceError> {
        let git = &self.site.git;
        Ok(Planned::Ended(IntegrationEnd::Conflict {
            paths: conflict.named(),
            hunks: conflict.hunks(git, head).await?,
            others: conflict.others(git, head, &source).await?,
            head: head.to_owned(),
            source_ref,
            source: Some(source),
        }))
    }

    async fn revert(&self, reverted: &str, commit: &str) -> Result<Planned, WorkspaceError> {
        let site = &self.site;
        let wanted = FetchRequest {
            refs: vec![&site.feature_ref],
            base: &site.git_order.base,
            commit: Some(commit),
        };
        let fetched = site.fetch(&wanted).await?;
        let git = &site.git;
        let head = fetched.refs.into_iter().next().flatten();
        let there = match &head {
            Some(head) => rebase::is_ancestor(git, commit, head).await?,
            None => false,
        };
        if head.is_none()
            && let Some(message) =
                branch::objection(git, site.git_order, None, fetched.base.as_deref()).await?
        {
            return Ok(failed(message));
        }
        let Some(head) = head.filter(|_| there) else {
            let branch = &site.git_order.feature_branch;
            return Ok(failed(format!(
                "{commit} is not on {branch}, so it can't be reverted"
            )));
        };
        let own = site.git_order.trailers.get(TASK_TRAILER);
        let own = own.map_or("", String::as_str);
        if let Some(done) = rebase::find_landing(git, &head, fetched.base.as_deref(), own).await? {
            let empty = rebase::is_empty(git, &done).await?;
            return Ok(Planned::Ended(IntegrationEnd::Merged { commit: done, empty }));
        }
        // Another task already reverted it, perhaps before this one was released: the head is the result.
        if rebase::is_reverted(git, commit, &head, reverted).await? {
            return Ok(nothing_to_do(head));
        }
        // Make the inverse change on the commit itself, then rebase it onto the head like any other change.
        let before = rebase::tree_of(git, &format!("{commit}^")).await?;
        let inverse = self.commit(&before, &[commit], &[]).await?;
        let (tree, empty) = match rebase::rebase(git, &head, &inverse).await? {
            Rebased::Clean { tree, empty } => (tree, empty),
            Rebased::Conflict(conflict) => {
                let name = &site.git_order.attempt_ref;
                push::create(git, &inverse, name).await?;
                return self.conflicts(conflict, &head, inverse, Some(name.clone())).await;
            }
        };
        let new = self
            .commit(&tree, &[&head], &[(REVERT_TRAILER, reverted)])
            .await?;
        Ok(Planned::Change(RefUpdate {
            target: site.feature_ref.clone(),
            old: Some(head),
            new,
            empty,
            base: None,
        }))
    }

    /// A commit with the order's message and author, and with further trailers.
    pub(in crate::workspace) async fn commit(
        &self,
        tree: &str,
        parents: &[&str],
        trailers: &[(&str, &str)],
    ) -> Result<String, WorkspaceError> {
        let Self { site, order } = self;
        let message = CommitMessage {
            subject: order.subject.clone(),
            body: order.body.clone(),
        };
        let more = trailers
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let trailers: BTreeMap<String, String> =
            site.git_order.trailers.clone().into_iter().chain(more).collect();
        let author = commit::author(&site.git);
        let message = message.render(&trailers);
        let signature = Signature::AsConfigured;
        Ok(commit::commit_tree(&site.git, tree, parents, &message, &author, signature).await?)
    }
}

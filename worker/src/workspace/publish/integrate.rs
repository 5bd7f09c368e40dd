//! Brings one attempt onto the feature branch. It is decided before it is pushed, and any worker can finish
//! it (DESIGN 6).
//!
//! ```text
//! fetch ─► trailer there? ─► branch intact? ─► rebase ─► gate ─► push to the attempt ref ─► same patch? ─► decide ─► land
//!              └► Merged         └► Failed       └► Conflict └► GateFailed                     └► Rewritten  └► Told
//! ahead of its turn: the same up to the gate, behind the attempts that land before it ─► Checked
//! resume: fetch ─► new in the head? ─► Merged; head still old? ─► land; else Void
//! ```
//!
//! Before the decision, a request from outside can end the integration. The same holds while another worker's
//! decision is fetched. After that, the push is always completed. A gate doesn't run again on a tree whose
//! result the order holds.

use std::collections::BTreeMap;
use std::future::pending;

use parking_lot::Mutex;
use ralph_shared::wire::{
    Ahead, Decided, EndReason, Gated, GitOrder, IntegrateOrder, IntegrationEnd, IntegrationReport,
    WorkspaceOrder,
};
use tokio::sync::watch;

use super::rebase::{self, Rebased};
use super::site::Site;
use super::{branch, land, patch, push};
use crate::faults;
use crate::workspace::clone::gitdir::ObjectFormat;
use crate::workspace::clone::mirror::{FetchRequest, Fetched};
use crate::workspace::error::WorkspaceError;
use crate::workspace::record::Purpose;
use crate::workspace::snapshot::commit::TASK_TRAILER;
use crate::workspace::snapshot::commit::{self, CommitMessage, Signature};
use crate::workspace::workspaces::{self, Workspaces};
use crate::workspace::{clone::prepare, git::address};

/// The trailer of a landed commit that names the later tree on which the gate ran for it.
const GATE_TRAILER: &str = "Ralph-Gate-Tree";

/// The coordinator's answer to a rebased commit. The caller repeats the question until it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The coordinator stored the integration: push it.
    Push,
    /// The dispatch is not the task's current one, or does not have the turn: push nothing.
    Refused { reason: String },
    /// No answer came in time. The coordinator may have stored the integration; then the next worker resumes
    /// it.
    Unanswered { reason: String },
}

impl Decision {
    /// The end of a dispatch that may not push; `None` when it may.
    pub(super) fn refused(self) -> Option<IntegrationEnd> {
        match self {
            Self::Push => None,
            Self::Refused { reason } => {
                tracing::info!(%reason, "the coordinator refused the push");
                let reason = EndReason::Fenced;
                Some(IntegrationEnd::Told { reason })
            }
            Self::Unanswered { reason } => Some(IntegrationEnd::Failed {
                message: format!("the coordinator did not answer whether to push: {reason}"),
                retry: true,
                away: false,
            }),
        }
    }
}

impl Workspaces {
    /// Integrates `order.commit` into the feature branch of `git`. Calls `decide` once, with the new commit
    /// already on the attempt ref. `end` can end the integration before that answer. The order needs the
    /// trailer [`TASK_TRAILER`].
    pub async fn integrate<F, D>(
        &self,
        dispatch: &str,
        git: &GitOrder,
        order: &IntegrateOrder,
        decide: F,
        mut end: watch::Receiver<Option<EndReason>>,
    ) -> IntegrationReport
    where
        F: FnOnce(Decided) -> D + Send,
        D: Future<Output = Decision> + Send,
    {
        let failed = |error: WorkspaceError| IntegrationEnd::Failed {
            retry: error.retry_can_help(),
            away: error.is_elsewhere(),
            message: format!(
                "failed to integrate {} into {} of {}: {error}",
                order.commit,
                git.feature_branch,
                address::public(&git.repository.address)
            ),
        };
        let workspace = WorkspaceOrder::Git(git.clone());
        let taken = workspaces::check(git).and_then(|()| self.take(dispatch, &workspace, Purpose::ThrowAway));
        let locked = match taken {
            Ok((locked, _)) => locked,
            Err(error) => return failed(error).into(),
        };
        let site = Site::new(self, locked.folders(), git);
        let integration = Integration {
            site,
            order,
            gated: Mutex::default(),
        };
        let end = integration.run(decide, &mut end).await.unwrap_or_else(failed);
        let steps = integration.site.take_times();
        let gated = integration.gated.into_inner();
        if let Err(error) = locked.remove().await {
            tracing::warn!(%dispatch, %error, "failed to delete the folder of an integration");
        }
        IntegrationReport { end, gated, steps }
    }
}

struct Integration<'a> {
    site: Site<'a>,
    order: &'a IntegrateOrder,
    gated: Mutex<Option<Gated>>,
}

/// Result of a step before the decision.
enum Step<T> {
    Next(T),
    Ended(IntegrationEnd),
}

/// A commit that could become the branch's head.
struct Candidate {
    decided: Decided,
    empty: bool,
    tree: String,
    /// The trees of the attempts ahead of it.
    ahead: Vec<String>,
}

/// The commit that an attempt is rebased onto.
struct Onto {
    commit: String,
    /// The trees of the attempts that it includes.
    trees: Vec<String>,
}

impl Integration<'_> {
    async fn run<F, D>(
        &self,
        decide: F,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> Result<IntegrationEnd, WorkspaceError>
    where
        F: FnOnce(Decided) -> D,
        D: Future<Output = Decision>,
    {
        self.site.make()?;
        if let Some(decided) = &self.order.resume {
            return self.resume(decided, end).await;
        }
        let step = tokio::select! {
            biased;
            reason = end_requested(end) => return Ok(IntegrationEnd::Told { reason }),
            step = self.until_decided(decide) => step?,
        };
        match step {
            Step::Ended(ended) => Ok(ended),
            Step::Next(Candidate { decided, empty, .. }) => {
                faults::point("integrate.after_decide");
                land::land(&self.site, &self.site.feature_ref, &decided, empty).await
            }
        }
    }

    async fn until_decided<F, D>(&self, decide: F) -> Result<Step<Candidate>, WorkspaceError>
    where
        F: FnOnce(Decided) -> D,
        D: Future<Output = Decision>,
    {
        let candidate = match self.rebase().await? {
            Step::Next(candidate) => candidate,
            ended => return Ok(ended),
        };
        faults::point("integrate.after_rebase");
        let Decided { new, new_ref, .. } = &candidate.decided;
        if let Some(ended) = self.gate(&candidate).await? {
            return Ok(Step::Ended(ended));
        }
        faults::point("integrate.after_gate");
        if self.order.ahead.is_some() {
            return Ok(Step::Ended(IntegrationEnd::Checked));
        }
        let protected = self.protected(new).await?;
        if !protected.is_empty() {
            return Ok(Step::Ended(IntegrationEnd::Protected { paths: protected }));
        }
        push::create(&self.site.git, new, new_ref).await?;
        faults::point("integrate.kept");
        if self.order.judged && !self.is_same_patch(&candidate.decided).await? {
            return Ok(Step::Ended(IntegrationEnd::Rewritten {
                commit: new.clone(),
                commit_ref: new_ref.clone(),
            }));
        }
        faults::point("integrate.before_decide");
        Ok(match decide(candidate.decided.clone()).await.refused() {
            None => Step::Next(candidate),
            Some(ended) => Step::Ended(ended),
        })
    }

    /// Runs the gate on the candidate's tree, unless its result is known. `None` when the candidate may land.
    async fn gate(&self, candidate: &Candidate) -> Result<Option<IntegrationEnd>, WorkspaceError> {
        let Candidate { tree, ahead, .. } = candidate;
        if self.order.gate.is_empty() || self.order.passed.iter().any(|known| known.tree == *tree) {
            return Ok(None);
        }
        if let Some(known) = self.order.failed.as_ref().filter(|known| known.tree == *tree) {
            return Ok(Some(IntegrationEnd::GateFailed {
                command: known.command.clone(),
                output: known.output.clone(),
            }));
        }
        let mut failures = 0;
        let failed = loop {
            let IntegrateOrder { gate, steps, .. } = self.order;
            let failed = self.site.gate(gate, steps, &candidate.decided.new).await?;
            failures += u32::from(failed.is_some());
            if failed.is_none() || failures > self.order.retries {
                break failed;
            }
        };
        *self.gated.lock() = Some(Gated {
            tree: tree.clone(),
            ahead: ahead.clone(),
            failures,
        });
        Ok(failed)
    }

    /// The protected paths that a commit changes. A merge counts paths that differ from both parents.
    async fn protected(&self, commit: &str) -> Result<Vec<String>, WorkspaceError> {
        if self.order.protect.is_empty() {
            return Ok(Vec::new());
        }
        let patterns = self
            .order
            .protect
            .iter()
            .map(|pattern| format!(":(glob){pattern}"));
        let named = self
            .site
            .git
            .run("diff-tree")
            .args([
                "-c",
                "-r",
                "--root",
                "--name-only",
                "--no-commit-id",
                "-z",
                commit,
                "--",
            ])
            .args(patterns)
            .output()
            .await?;
        Ok(named.parts())
    }

    /// Whether the rebased attempt makes the same change as the judged one.
    async fn is_same_patch(&self, decided: &Decided) -> Result<bool, WorkspaceError> {
        let onto = land::expected(decided).unwrap_or(&self.site.git_order.base);
        Ok(patch::is_same_change(&self.site.git, &self.order.commit, onto, &decided.new).await?)
    }

    /// Fetches and rebases, and repeats that once with a recreated mirror if objects are broken.
    async fn rebase(&self) -> Result<Step<Candidate>, WorkspaceError> {
        let feature_ref = self.site.feature_ref.as_str();
        let refs = [feature_ref]
            .into_iter()
            .chain(self.site.git_order.start_ref.as_deref())
            .chain(self.order.brings_ref.as_deref())
            .chain(
                self.order
                    .ahead
                    .iter()
                    .flatten()
                    .map(|ahead| ahead.commit_ref.as_str()),
            )
            .collect();
        let wanted = FetchRequest {
            refs,
            base: &self.site.git_order.base,
            commit: Some(&self.order.commit),
        };
        let fetched = self.site.fetch(&wanted).await?;
        match self.rebase_onto(fetched).await {
            Err(WorkspaceError::Git(error)) if error.suspects_objects() => {
                let fetched = self.site.mirror.rebuild(&wanted).await?;
                self.rebase_onto(fetched).await
            }
            other => other,
        }
    }

    async fn rebase_onto(&self, fetched: Fetched) -> Result<Step<Candidate>, WorkspaceError> {
        let Site { git, git_order, .. } = &self.site;
        let head = fetched.refs.into_iter().next().flatten();
        let base = fetched.base.as_deref();
        if let Some(ended) = self.ended_before(head.as_deref(), base).await? {
            return Ok(Step::Ended(ended));
        }
        let Some(commit) = fetched.commit else {
            return Err(self.missing(&self.order.commit, "the attempt to integrate"));
        };
        if let Some(brings) = &self.order.brings
            && !rebase::has_commit(git, brings).await?
        {
            return Err(self.missing(brings, "the base commit to merge"));
        }
        let Some(onto) = head.as_deref().or(base) else {
            return Err(prepare::missing_base(git_order, &self.site.mirror).await);
        };
        let Onto { commit: onto, trees } = match self.behind(head.as_deref(), base, onto.to_owned()).await? {
            Step::Next(onto) => onto,
            Step::Ended(ended) => return Ok(Step::Ended(ended)),
        };
        let (tree, empty) = match self.rebased_tree(&onto, &commit).await? {
            Step::Next(rebased) => rebased,
            Step::Ended(ended) => return Ok(Step::Ended(ended)),
        };
        let decided = Decided {
            new: self.commit(&onto, &tree).await?,
            old: head.unwrap_or_else(|| ObjectFormat::of(&onto).zeros()),
            new_ref: git_order.attempt_ref.clone(),
        };
        Ok(Step::Next(Candidate {
            decided,
            empty,
            tree,
            ahead: trees,
        }))
    }

    /// The end, if the task already landed or nothing can land on the branch.
    async fn ended_before(
        &self,
        head: Option<&str>,
        base: Option<&str>,
    ) -> Result<Option<IntegrationEnd>, WorkspaceError> {
        let Site { git, git_order, .. } = &self.site;
        let task = git_order.trailers.get(TASK_TRAILER);
        let task = task.ok_or_else(|| WorkspaceError::Order(format!("it has no trailer {TASK_TRAILER}")))?;
        if let Some(head) = head
            && let Some(commit) = rebase::find_landing(git, head, base, task).await?
        {
            let empty = rebase::is_empty(git, &commit).await?;
            return Ok(Some(IntegrationEnd::Merged { commit, empty }));
        }
        let objection = branch::objection(git, git_order, head, base).await?;
        Ok(objection.map(|message| IntegrationEnd::Failed {
            message,
            retry: false,
            away: false,
        }))
    }

    fn missing(&self, commit: &str, role: &'static str) -> WorkspaceError {
        WorkspaceError::CommitMissing {
            address: address::public(&self.site.git_order.repository.address),
            commit: commit.to_owned(),
            role,
        }
    }

    /// The tree of the attempt on `onto`, and whether it equals the tree of `onto`.
    async fn rebased_tree(&self, onto: &str, commit: &str) -> Result<Step<(String, bool)>, WorkspaceError> {
        let git = &self.site.git;
        let (tree, empty) = match rebase::rebase(git, onto, commit).await? {
            Rebased::Clean { tree, empty } => (tree, empty),
            Rebased::Conflict(conflict) => {
                return Ok(Step::Ended(IntegrationEnd::Conflict {
                    paths: conflict.named(),
                    hunks: conflict.hunks(git, onto).await?,
                    others: conflict.others(git, onto, commit).await?,
                    head: onto.to_owned(),
                    source: None,
                    source_ref: None,
                }));
            }
        };
        if self.order.after_conflict {
            let paths = rebase::unresolved(git, onto, &tree).await?;
            if !paths.is_empty() {
                return Ok(Step::Ended(IntegrationEnd::Unresolved { paths }));
            }
        }
        Ok(Step::Next((tree, empty)))
    }

    async fn commit(&self, onto: &str, tree: &str) -> Result<String, WorkspaceError> {
        let Self { site, order, .. } = self;
        let message = CommitMessage {
            subject: order.subject.clone(),
            body: order.body.clone(),
        };
        let mut trailers = site.git_order.trailers.clone();
        let known = order.passed.iter().find(|known| known.tree == tree);
        if let Some(tip) = known.and_then(|known| known.tip.as_ref()) {
            trailers.insert(GATE_TRAILER.to_owned(), tip.clone());
        }
        let message = message.render(&trailers);
        let author = commit::author(&site.git);
        let parents: Vec<&str> = [onto].into_iter().chain(order.brings.as_deref()).collect();
        let signature = match order.ahead {
            Some(_) => Signature::Never,
            None => Signature::AsConfigured,
        };
        Ok(commit::commit_tree(&site.git, tree, &parents, &message, &author, signature).await?)
    }

    /// The future head of the branch, after the attempts ahead have landed on `onto`. Attempts that already
    /// landed are skipped.
    async fn behind(
        &self,
        head: Option<&str>,
        base: Option<&str>,
        onto: String,
    ) -> Result<Step<Onto>, WorkspaceError> {
        let git = &self.site.git;
        let mut onto = Onto {
            commit: onto,
            trees: Vec::new(),
        };
        for Ahead { task, commit, .. } in self.order.ahead.iter().flatten() {
            let task = task.to_string();
            if let Some(head) = head
                && rebase::find_landing(git, head, base, &task).await?.is_some()
            {
                continue;
            }
            let Rebased::Clean { tree, .. } = rebase::rebase(git, &onto.commit, commit).await? else {
                let reason = format!("{commit} of {task}, which is to land before it, conflicts");
                return Ok(Step::Ended(IntegrationEnd::Void { reason }));
            };
            let message = CommitMessage {
                subject: format!("{task}, ahead of its turn"),
                body: String::new(),
            };
            let trailers = BTreeMap::from([(TASK_TRAILER.to_owned(), task)]);
            let (message, author) = (message.render(&trailers), commit::author(git));
            onto.commit =
                commit::commit_tree(git, &tree, &[&onto.commit], &message, &author, Signature::Never).await?;
            onto.trees.push(tree);
        }
        Ok(Step::Next(onto))
    }

    /// Finishes an integration that another worker got decided. After a request to end during the fetch, the
    /// next worker finishes it.
    async fn resume(
        &self,
        decided: &Decided,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> Result<IntegrationEnd, WorkspaceError> {
        let Decided { old, new, new_ref } = decided;
        if !address::is_object_id(old) || !address::is_object_id(new) || !address::is_ref(new_ref) {
            return Err(WorkspaceError::Order(
                "the integration to resume is not readable".to_owned(),
            ));
        }
        let wanted = FetchRequest {
            refs: vec![&self.site.feature_ref, new_ref],
            base: &self.site.git_order.base,
            commit: Some(new),
        };
        let fetched = tokio::select! {
            biased;
            reason = end_requested(end) => return Ok(IntegrationEnd::Told { reason }),
            fetched = self.site.fetch(&wanted) => fetched?,
        };
        let head = fetched.refs.into_iter().next().flatten();
        if let Some(merged) = land::merged_already(&self.site.git, decided, head.as_deref()).await? {
            return Ok(merged);
        }
        let void = |reason: String| Ok(IntegrationEnd::Void { reason });
        if head.as_deref() != land::expected(decided) {
            let found = head.as_deref().unwrap_or("nowhere");
            return void(format!(
                "{} is at {found}, which is neither {old} nor a descendant of {new}",
                self.site.feature_ref
            ));
        }
        if fetched.commit.is_none() {
            return void(format!(
                "the remote no longer has {new}, neither on {new_ref} nor elsewhere"
            ));
        }
        if head.is_some() && !rebase::is_ancestor(&self.site.git, old, new).await? {
            return void(format!("{new} is not a descendant of {old}"));
        }
        let empty = rebase::is_empty(&self.site.git, new).await?;
        land::land(&self.site, &self.site.feature_ref, decided, empty).await
    }
}

/// Waits for a request to end the integration; for ever when none can come any more.
pub(in crate::workspace) async fn end_requested(end: &mut watch::Receiver<Option<EndReason>>) -> EndReason {
    let requested = end
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|reason| *reason);
    match requested {
        Some(reason) => reason,
        None => pending().await,
    }
}

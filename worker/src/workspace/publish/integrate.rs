//! Brings one attempt onto the feature branch: decided before it is pushed, and finished by anyone (DESIGN 6).
//!
//! ```text
//! fetch ─► trailer there? ─► branch intact? ─► rebase ─► gate ─► push to the attempt ref ─► same patch? ─► decide ─► land
//!              └► Merged         └► Failed       └► Conflict └► GateFailed                     └► Rewritten  └► Told
//! resume: fetch ─► new in the head? ─► Merged; head still old? ─► land; else Void
//! ```
//!
//! Until the decision, an end from outside ends it, and so it does one that somebody else decided before that is fetched; afterwards
//! the push is carried through.

use std::future::pending;

use ralph_shared::wire::{Decided, EndReason, GitOrder, IntegrateOrder, IntegrationEnd, WorkspaceOrder};
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

/// The coordinator's answer to a rebased commit, asked for again by the caller until there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The integration is stored: push it.
    Push,
    /// The dispatch is not the task's current one, or holds no turn: push nothing.
    Refused {
        /// Why.
        reason: String,
    },
    /// Nobody answered in time. It may be stored all the same, and is left to whoever resumes it then.
    Unanswered {
        /// What was tried.
        reason: String,
    },
}

impl Workspaces {
    /// Integrates `order.commit` into the feature branch of `git`. `decide` is asked once, with the new commit already
    /// on the attempt ref; `end` can end everything before its answer. The order needs the trailer [`TASK_TRAILER`].
    pub async fn integrate<F, D>(
        &self,
        dispatch: &str,
        git: &GitOrder,
        order: &IntegrateOrder,
        decide: F,
        mut end: watch::Receiver<Option<EndReason>>,
    ) -> IntegrationEnd
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
        let held = match taken {
            Ok((held, _)) => held,
            Err(error) => return failed(error),
        };
        let site = Site::new(self, held.folders(), git);
        let integration = Integration { site, order };
        let ended = integration.run(decide, &mut end).await.unwrap_or_else(failed);
        if let Err(error) = held.remove().await {
            tracing::warn!(%dispatch, %error, "failed to delete the folder of an integration");
        }
        ended
    }
}

struct Integration<'a> {
    site: Site<'a>,
    order: &'a IntegrateOrder,
}

/// How far an integration is before the decision.
enum Step<T> {
    Next(T),
    Ended(IntegrationEnd),
}

/// A commit that could be the branch's next head.
struct Candidate {
    decided: Decided,
    empty: bool,
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
            reason = told(end) => return Ok(IntegrationEnd::Told { reason }),
            step = self.until_decided(decide) => step?,
        };
        match step {
            Step::Ended(ended) => Ok(ended),
            Step::Next(Candidate { decided, empty }) => {
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
        if let Some(ended) = self.site.gate(&self.order.gate, new).await? {
            return Ok(Step::Ended(ended));
        }
        faults::point("integrate.after_gate");
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
        Ok(match decide(candidate.decided.clone()).await {
            Decision::Push => Step::Next(candidate),
            Decision::Refused { reason } => {
                tracing::info!(%reason, "integration refused");
                Step::Ended(IntegrationEnd::Told {
                    reason: EndReason::Fenced,
                })
            }
            Decision::Unanswered { reason } => {
                let message = format!("asked whether {new} may land, but there was no answer: {reason}");
                Step::Ended(IntegrationEnd::Failed {
                    message,
                    retry: true,
                    away: false,
                })
            }
        })
    }

    /// The protected paths that a commit changes; of a merge those that neither parent has so.
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
            .await?
            .stdout;
        let paths = named.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect())
    }

    /// Whether the rebased attempt changes what the judged one does.
    async fn is_same_patch(&self, decided: &Decided) -> Result<bool, WorkspaceError> {
        let onto = land::expected(decided).unwrap_or(&self.site.git_order.base);
        Ok(patch::survives(&self.site.git, &self.order.commit, onto, &decided.new).await?)
    }

    /// Fetches and rebases; once more with a mirror made anew when objects in it turn out to be broken.
    async fn rebase(&self) -> Result<Step<Candidate>, WorkspaceError> {
        let feature_ref = self.site.feature_ref.as_str();
        let refs = [feature_ref]
            .into_iter()
            .chain(self.site.git_order.start_ref.as_deref())
            .chain(self.order.brings_ref.as_deref())
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
        let Self { site, order } = self;
        let Site { git, git_order, .. } = site;
        let task = git_order.trailers.get(TASK_TRAILER);
        let task = task.ok_or_else(|| WorkspaceError::Order(format!("it has no trailer {TASK_TRAILER}")))?;
        let head = fetched.refs.into_iter().next().flatten();
        if let Some(head) = &head
            && let Some(commit) = rebase::find_landing(git, head, fetched.base.as_deref(), task).await?
        {
            let empty = rebase::is_empty(git, &commit).await?;
            return Ok(Step::Ended(IntegrationEnd::Merged { commit, empty }));
        }
        if let Some(message) =
            branch::objection(git, git_order, head.as_deref(), fetched.base.as_deref()).await?
        {
            return Ok(Step::Ended(IntegrationEnd::Failed {
                message,
                retry: false,
                away: false,
            }));
        }
        let Some(commit) = fetched.commit else {
            return Err(WorkspaceError::CommitMissing {
                address: address::public(&git_order.repository.address),
                commit: order.commit.clone(),
                role: "the attempt to integrate",
            });
        };
        if let Some(brings) = &order.brings
            && !rebase::is_ancestor(git, brings, brings).await?
        {
            return Err(WorkspaceError::CommitMissing {
                address: address::public(&git_order.repository.address),
                commit: brings.clone(),
                role: "the base that it brings in",
            });
        }
        let onto = match head.clone().or(fetched.base) {
            Some(onto) => onto,
            None => return Err(prepare::missing_base(git_order, &site.mirror).await),
        };
        let (tree, empty) = match rebase::rebase(git, &onto, &commit).await? {
            Rebased::Clean { tree, empty } => (tree, empty),
            Rebased::Conflict(conflict) => {
                return Ok(Step::Ended(IntegrationEnd::Conflict {
                    paths: conflict.named(),
                    hunks: conflict.hunks(git, &onto).await?,
                    others: conflict.others(git, &onto, &commit).await?,
                    head: onto,
                    source: None,
                    source_ref: None,
                }));
            }
        };
        if order.after_conflict {
            let paths = rebase::unresolved(git, &onto, &tree).await?;
            if !paths.is_empty() {
                return Ok(Step::Ended(IntegrationEnd::Unresolved { paths }));
            }
        }
        let message = CommitMessage {
            subject: order.subject.clone(),
            body: order.body.clone(),
        };
        let message = message.render(&git_order.trailers);
        let author = commit::author(git);
        let parents: Vec<&str> = [onto.as_str()]
            .into_iter()
            .chain(order.brings.as_deref())
            .collect();
        let new =
            commit::commit_tree(git, &tree, &parents, &message, &author, Signature::AsConfigured).await?;
        let old = head.unwrap_or_else(|| ObjectFormat::of(&onto).zeros());
        let decided = Decided {
            old,
            new,
            new_ref: git_order.attempt_ref.clone(),
        };
        Ok(Step::Next(Candidate { decided, empty }))
    }

    /// Finishes what somebody else decided. Whoever is told to end while it is fetched leaves it to the next one.
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
            reason = told(end) => return Ok(IntegrationEnd::Told { reason }),
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
                "{} is at {found}, not at {old} and not after {new}",
                self.site.feature_ref
            ));
        }
        if fetched.commit.is_none() {
            return void(format!(
                "{new} is not at the remote any more, neither on {new_ref} nor elsewhere"
            ));
        }
        if head.is_some() && !rebase::is_ancestor(&self.site.git, old, new).await? {
            return void(format!("{new} does not come after {old}"));
        }
        let empty = rebase::is_empty(&self.site.git, new).await?;
        land::land(&self.site, &self.site.feature_ref, decided, empty).await
    }
}

/// Waits until the integration is told to end; for ever when nobody can tell it any more.
pub(in crate::workspace) async fn told(end: &mut watch::Receiver<Option<EndReason>>) -> EndReason {
    let told = end
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|reason| *reason);
    match told {
        Some(reason) => reason,
        None => pending().await,
    }
}

//! Merges the feature's branch into another one, or hands it over to the user's own command (DESIGN 6).

use ralph_shared::environment;
use ralph_shared::wire::{Decided, EndReason, IntegrationEnd, MergeHow};
use tokio::process::Command;
use tokio::sync::watch;

use super::branch::{self, MERGES_TRAILER};
use super::integrate::{Decision, end_requested};
use super::rebase::{self, Rebased};
use crate::faults;
use crate::session::RedactedTail;
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::process;
use crate::workspace::publish::operations::{Operation, Planned, RefUpdate, failed, nothing_to_do};
use crate::workspace::snapshot::commit::TASK_TRAILER;
use crate::workspace::snapshot::commit::{self, Signature};

/// Bytes reported from the end of the user's command's redacted output.
const OUTPUT_BYTES: usize = 16 << 10;
/// Longest summary for the command, because variables have a size limit. Characters.
const SUMMARY_CHARS: usize = 20_000;

impl Operation<'_> {
    /// The next head of `branch`, with the feature's branch merged.
    ///
    /// # Errors
    /// When the server can't be reached, or git fails.
    pub(in crate::workspace) async fn merge(
        &self,
        branch: &str,
        how: MergeHow,
    ) -> Result<Planned, WorkspaceError> {
        let [head, onto, base] = self.heads(branch).await?;
        let git = &self.site.git;
        // A person merged the branch and deleted it.
        if let (None, Some(landed), Some(onto)) = (&head, &self.site.git_order.landed, &onto)
            && how != MergeHow::Command
            && branch::went_into(git, &landed.commit, onto).await?
        {
            return Ok(nothing_to_do(onto.clone()));
        }
        if let Some(message) =
            branch::objection(git, self.site.git_order, head.as_deref(), base.as_deref()).await?
        {
            return Ok(failed(message));
        }
        let Some(head) = head else {
            return Ok(nothing_to_do(self.site.git_order.base.clone()));
        };
        if how == MergeHow::Command {
            return Ok(Planned::Deliver {
                branch: branch.to_owned(),
                head,
            });
        }
        let Some(onto) = onto else {
            return Ok(self.no_branch(branch));
        };
        if rebase::is_ancestor(git, &head, &onto).await? {
            return Ok(nothing_to_do(onto));
        }
        let own = self.site.git_order.trailers.get(TASK_TRAILER);
        let own = own.map_or("", String::as_str);
        // Work that landed after an earlier try of this task is not in that merge, so another commit merges
        // the rest.
        let landed = self.site.git_order.landed.as_ref().map(|landed| &landed.commit);
        if let Some(commit) = rebase::find_landing(git, &onto, base.as_deref(), own).await?
            && branch::contains(git, landed.unwrap_or(&head), &commit).await?
        {
            return Ok(Planned::Ended(IntegrationEnd::Merged { commit, empty: false }));
        }
        self.merged(branch, how, onto, head).await
    }

    /// The next head of `branch`, after `head` is merged into its current head `onto`.
    async fn merged(
        &self,
        branch: &str,
        how: MergeHow,
        onto: String,
        head: String,
    ) -> Result<Planned, WorkspaceError> {
        let feature = &self.site.git_order.feature_branch;
        let git = &self.site.git;
        let change = |new: String, empty: bool| {
            Planned::Change(RefUpdate {
                target: format!("refs/heads/{branch}"),
                old: Some(onto.clone()),
                new,
                empty,
                base: None,
            })
        };
        if how == MergeHow::Ff {
            if !rebase::is_ancestor(git, &onto, &head).await? {
                return Ok(failed(format!(
                    "`{branch}` has moved on since `{feature}` began, so it can't be fast-forwarded; merge it into the feature with \
                     `feature update`, then retry this task"
                )));
            }
            return Ok(change(head, false));
        }
        let (tree, empty) = match rebase::rebase(git, &self.as_merged(&onto, &head).await?, &head).await? {
            Rebased::Clean { tree, empty } => (tree, empty),
            Rebased::Conflict(conflict) => {
                return Ok(failed(format!(
                    "`{branch}` and `{feature}` conflict in {}; merge `{branch}` into the feature with `feature update`, \
                     then retry this task",
                    conflict.named().join(", ")
                )));
            }
        };
        if empty && how == MergeHow::Squash {
            return Ok(nothing_to_do(onto));
        }
        let parents = match how {
            MergeHow::Merge => vec![onto.as_str(), head.as_str()],
            _ => vec![onto.as_str()],
        };
        let brings = match how {
            MergeHow::Squash => &[(MERGES_TRAILER, head.as_str())][..],
            _ => &[],
        };
        let new = self.commit(&tree, &parents, brings).await?;
        Ok(change(new, empty))
    }

    /// A commit that replaces `onto` in a merge with the feature's branch. It also has the squashed part of
    /// that branch as a parent, so that part is no change of its own in the merge.
    pub(in crate::workspace) async fn as_merged(
        &self,
        onto: &str,
        head: &str,
    ) -> Result<String, WorkspaceError> {
        let git = &self.site.git;
        let Some(brought) = branch::squashed(git, onto, &self.site.git_order.base, head).await? else {
            return Ok(onto.to_owned());
        };
        let tree = rebase::tree_of(git, onto).await?;
        let author = commit::author(git);
        let parents = [onto, brought.as_str()];
        Ok(commit::commit_tree(git, &tree, &parents, "As merged\n", &author, Signature::Never).await?)
    }

    /// Runs the user's own command on a checkout of the feature's head, with the worker's environment and rights.
    pub(in crate::workspace) async fn run_delivery<F, D>(
        &self,
        branch: &str,
        head: String,
        decide: F,
        end: &mut watch::Receiver<Option<EndReason>>,
    ) -> Result<IntegrationEnd, WorkspaceError>
    where
        F: Fn(Decided) -> D,
        D: Future<Output = Decision>,
    {
        let site = &self.site;
        let Some(script) = &site.settings.on_complete else {
            let message = "this worker has no command to hand a feature over, another worker may have one: set `[workspace] \
                           on_complete` in a worker's .ralph.toml";
            return Ok(IntegrationEnd::Failed {
                message: message.to_owned(),
                retry: true,
                away: true,
            });
        };
        let prepared = async {
            let gated = site.gate(&self.order.gate, &self.order.steps, &head).await?;
            // The gate ran agents' code, so the command runs in a fresh checkout.
            site.check_out(&head).await?;
            Ok::<_, WorkspaceError>(gated)
        };
        let gated = tokio::select! {
            biased;
            reason = end_requested(end) => return Ok(IntegrationEnd::Told { reason }),
            gated = prepared => gated?,
        };
        if let Some(ended) = gated {
            return Ok(ended);
        }
        let decided = Decided {
            old: head.clone(),
            new: head.clone(),
            new_ref: site.feature_ref.clone(),
        };
        if let Some(ended) = decide(decided).await.refused() {
            return Ok(ended);
        }
        Ok(self.run_on_complete(script, branch, head).await)
    }

    async fn run_on_complete(&self, script: &str, branch: &str, head: String) -> IntegrationEnd {
        let site = &self.site;
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(site.folders.tree());
        for name in environment::secrets() {
            command.env_remove(name);
        }
        let summary: String = self.order.body.chars().take(SUMMARY_CHARS).collect();
        command
            .env("RALPH_BRANCH", &site.git_order.feature_branch)
            .env("RALPH_BASE", branch)
            .env("RALPH_HEAD", &head)
            .env("RALPH_REPOSITORY", &site.git_order.repository.address)
            .env("RALPH_TITLE", &self.order.subject)
            .env("RALPH_SUMMARY", summary);
        let mut output = RedactedTail::new(&site.settings.redactor, OUTPUT_BYTES);
        faults::point("operate.before_command");
        let why = match process::run_own(command, site.settings.command_bound, &mut output).await {
            Ok(status) if status.success() => {
                return IntegrationEnd::Merged {
                    commit: head,
                    empty: false,
                };
            }
            Ok(status) => format!("{status}\n{}", output.text().trim()),
            Err(error) => error.to_string(),
        };
        IntegrationEnd::Failed {
            message: format!("`[workspace] on_complete` of this worker failed: {why}"),
            retry: false,
            away: false,
        }
    }
}

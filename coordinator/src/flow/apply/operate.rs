//! Ends of branch changes without an agent, and their consequences (DESIGN 6).

use std::time::Duration;

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{GitOperation, IntegrationEnd, IntegrationReport, MergeHow, Report};
use sqlx::PgConnection;

use super::super::{Signals, cascade};
use super::batch::{Batch, collision};
use super::record::end;
use crate::domain::failure::Failure;
use crate::domain::failure::retry::{self, Trouble};
use crate::domain::outcome::{self, IntegrationFacts, Step};
use crate::domain::states::{Outcome, TaskState, Verification};
use crate::flow::{integrate::base_gate, memory::library};
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};
use crate::store::git::integration::{Collision, IntegrationState};
use crate::store::git::operation::OperationEnd;
use crate::store::task::Task;

/// The actor in a task's log.
const BY_REVERT: &str = "its revert";

/// Whether a dispatch with this end has read the branches. Then earlier pushes were found, or did not
/// arrive.
fn has_checked_branches(end: &IntegrationEnd) -> bool {
    match end {
        IntegrationEnd::Merged { .. }
        | IntegrationEnd::Updated { .. }
        | IntegrationEnd::Delivered { .. }
        | IntegrationEnd::Conflict { .. }
        | IntegrationEnd::GateFailed { .. }
        | IntegrationEnd::Void { .. } => true,
        // It may have failed before its push, or in the middle of it.
        IntegrationEnd::Failed { .. }
        | IntegrationEnd::Told { .. }
        | IntegrationEnd::Rewritten { .. }
        | IntegrationEnd::Checked
        | IntegrationEnd::Protected { .. }
        | IntegrationEnd::Unresolved { .. } => false,
    }
}

fn runs_merge_command(operation: Option<&GitOperation>) -> bool {
    let Some(GitOperation::Merge { how, .. }) = operation else {
        return false;
    };
    *how == MergeHow::Command
}

impl Batch {
    pub(super) fn operation(
        &mut self,
        dispatch: &Dispatch,
        mut task: Task,
        report: &Report,
        integration: &IntegrationReport,
    ) {
        let mut judgement = outcome::operation(&integration.end);
        let operation = self.operations.get(&task.id).cloned();
        // The command belongs to a worker. Another worker may have a command that this one lacks.
        if judgement.is_away() && runs_merge_command(operation.as_ref()) {
            judgement.failure = Some(Failure::Lack);
        }
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        if has_checked_branches(&integration.end) {
            self.resolved_pushes.push(task.id);
        }
        match judgement.step {
            Step::Landed => {
                self.record_turnless_landing(&task, &integration.end);
                self.land(task);
            }
            Step::Resolve => self.resolve(task, &integration.end, operation),
            Step::Ask => self.needs_person(task, judgement.reason.unwrap_or_default()),
            // The branch moved during each of its tries, so the next ones wait for a while.
            _ if judgement.outcome == Outcome::Void => {
                let pause = retry::pause(task.attempt.saturating_add(1));
                let waiting = task.waiting();
                self.move_to(&mut task, waiting);
                self.enqueue.push((task.id, pause));
                self.tasks.insert(task.id, task);
            }
            _ => self.retry(task, dispatch, &judgement, false),
        }
    }

    /// Has an agent resolve the conflict of an operation.
    fn resolve(&mut self, mut task: Task, end: &IntegrationEnd, operation: Option<GitOperation>) {
        let IntegrationEnd::Conflict {
            source: Some(source),
            source_ref: Some(source_ref),
            ..
        } = end
        else {
            return;
        };
        self.noted.push(OperationEnd {
            feature: task.feature,
            task: task.id,
            attempt: task.attempt,
            commit: source.clone(),
            commit_ref: source_ref.clone(),
            state: IntegrationState::Conflict,
            collision: collision(end),
        });
        if let Some(GitOperation::Update { branch, .. }) = operation {
            let brings = Some(source.clone());
            self.altered
                .push((task.id, GitOperation::Update { branch, brings }));
        }
        task.start_commit = Some(source.clone());
        task.start_ref = Some(source_ref.clone());
        // A restart after a failed resolution is the same conflict; failures are counted apart.
        task.trouble.conflicts = task.trouble.conflicts.max(1);
        let waiting = task.waiting();
        self.move_to(&mut task, waiting);
        task.next_kind = Some(SessionKind::Work);
        self.enqueue.push((task.id, Duration::ZERO));
        self.tasks.insert(task.id, task);
    }

    fn record_turnless_landing(&mut self, task: &Task, end: &IntegrationEnd) {
        let commit = match end {
            IntegrationEnd::Updated { commit, base } => {
                self.bases.insert(task.id, base.clone());
                commit.as_ref()
            }
            IntegrationEnd::Merged { commit, .. } => Some(commit),
            IntegrationEnd::Delivered { landed, .. } => {
                self.delivered
                    .extend(landed.clone().map(|landed| (task.id, landed)));
                None
            }
            _ => None,
        };
        if let Some(commit) = commit {
            self.note_landing(task, commit);
        }
    }

    /// A worker found the task's work on the branch before its session began: the database was restored from
    /// a backup and does not know the landing.
    pub(super) fn landed_before(
        &mut self,
        dispatch: &Dispatch,
        task: Task,
        report: &Report,
        found: &IntegrationEnd,
    ) {
        self.count(dispatch, dispatch.used.settled());
        let judgement = outcome::integration(found, IntegrationFacts::default());
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        let IntegrationEnd::Merged { commit, empty } = found else {
            return;
        };
        if self.integrations.contains_key(&task.id) {
            self.landed_in_turn(task.id, commit, *empty);
        } else {
            self.note_landing(&task, commit);
        }
        self.land(task);
    }

    /// Records a landing that took no turn.
    pub(super) fn note_landing(&mut self, task: &Task, commit: &str) {
        self.noted.push(OperationEnd {
            feature: task.feature,
            task: task.id,
            attempt: task.attempt,
            commit: commit.to_owned(),
            commit_ref: String::new(),
            state: IntegrationState::Merged,
            collision: Collision::default(),
        });
    }

    pub(super) async fn write_operations(
        &mut self,
        conn: &mut PgConnection,
        signals: &mut Signals,
    ) -> sqlx::Result<()> {
        for ended in &self.noted {
            store::git::operation::note(conn, ended).await?;
        }
        for task in &self.resolved_pushes {
            store::git::operation::resolve_pushes(conn, *task).await?;
        }
        for (task, operation) in &self.altered {
            store::git::operation::set(conn, *task, operation).await?;
        }
        for id in std::mem::take(&mut self.operated) {
            self.follow_operation(conn, id, signals).await?;
        }
        Ok(())
    }

    async fn follow_operation(
        &mut self,
        conn: &mut PgConnection,
        id: TaskId,
        signals: &mut Signals,
    ) -> sqlx::Result<()> {
        let Some(feature) = self.tasks.get(&id).map(|task| task.feature) else {
            return Ok(());
        };
        match self.operations.get(&id).cloned() {
            Some(GitOperation::Update { brings, .. }) => {
                if let Some(base) = self.bases.get(&id).cloned().or(brings) {
                    store::git::operation::rebase(conn, feature, &base).await?;
                    let cause = base_gate::GateCause::Changed;
                    base_gate::follow(conn, &mut self.features, feature, cause, signals).await?;
                }
            }
            Some(GitOperation::Revert { task, commit, redo }) => {
                if !self.take_back(conn, task, &commit).await? {
                    let why = format!(
                        "{commit}, the landing of {task}, was reverted before; {task} stays as it is"
                    );
                    return store::task::log(conn, id, BY_REVERT, "revert", Some(&why)).await;
                }
                for task in redo {
                    self.repeat_task(conn, task, signals).await?;
                }
            }
            Some(GitOperation::Merge {
                branch,
                how,
                head,
                at_end,
            }) => {
                // The merge includes work that landed before it began, and no later work.
                let merged = GitOperation::Merge {
                    branch,
                    how,
                    head: self.delivered.remove(&id).unwrap_or(head),
                    at_end,
                };
                store::git::operation::set(conn, id, &merged).await?;
            }
            Some(GitOperation::Check { .. }) | None => {}
        }
        Ok(())
    }

    /// Handles a reverted landing: its task is cancelled, its dependents wait again, and its memory entries
    /// go. Returns false, and changes nothing, when `commit` is no longer the task's landing.
    async fn take_back(&mut self, conn: &mut PgConnection, id: TaskId, commit: &str) -> sqlx::Result<bool> {
        if !store::git::operation::take_back(conn, id, commit).await? {
            return Ok(false);
        }
        let dispatches = store::git::operation::dispatches(conn, id).await?;
        let dispatches: Vec<_> = dispatches.into_iter().map(|dispatch| dispatch.0).collect();
        library::revoke_entries(conn, &dispatches).await?;
        let Some(mut task) = store::task::lock(conn, &[id.0]).await?.pop() else {
            return Ok(true);
        };
        if task.state != TaskState::Done {
            return Ok(true);
        }
        self.move_to(&mut task, TaskState::Cancelled);
        task.dispatch = None;
        task.next_kind = Some(task.role);
        task.start_commit = None;
        task.start_ref = None;
        task.verification = Verification::None;
        task.trouble = Trouble::default();
        store::task::save(conn, &[&task]).await?;
        self.block_dependents_again(conn, id).await?;
        store::task::log(conn, id, BY_REVERT, "cancel", None).await?;
        self.take_back_ancestors(conn, task.parent).await?;
        Ok(true)
    }

    /// A parent without a done part is no longer done, and so on upward.
    async fn take_back_ancestors(
        &mut self,
        conn: &mut PgConnection,
        mut above: Option<TaskId>,
    ) -> sqlx::Result<()> {
        while let Some(id) = above {
            let Some(mut whole) = store::task::lock(conn, &[id.0]).await?.pop() else {
                return Ok(());
            };
            if whole.state != TaskState::Done {
                return Ok(());
            }
            let now = store::task::made_of_parts(conn, id).await?;
            if now == TaskState::Done {
                return Ok(());
            }
            self.move_to(&mut whole, now);
            store::task::save(conn, &[&whole]).await?;
            if !now.satisfies_dependents() {
                self.block_dependents_again(conn, id).await?;
            }
            let why = "its landed parts were reverted";
            let verb = if now == TaskState::Skipped {
                "skip"
            } else {
                "cancel"
            };
            store::task::log(conn, id, BY_REVERT, verb, Some(why)).await?;
            above = whole.parent;
        }
        Ok(())
    }

    /// Makes dependents of a task that is no longer done wait again, except those that have started.
    async fn block_dependents_again(&mut self, conn: &mut PgConnection, id: TaskId) -> sqlx::Result<()> {
        for begun in store::git::operation::let_go(conn, id).await? {
            let why =
                format!("the landing of {id} was reverted; this task has started and continues without it");
            store::task::log(conn, begun, BY_REVERT, "edit", Some(&why)).await?;
        }
        let dependents = store::task::dependencies::dependents_of(conn, &[id.0]).await?;
        cascade::closed(conn, &mut self.features, dependents).await
    }

    /// Repeats a task whose landing was reverted, unless its parent is over.
    async fn repeat_task(
        &mut self,
        conn: &mut PgConnection,
        id: TaskId,
        signals: &mut Signals,
    ) -> sqlx::Result<()> {
        let Some(mut task) = store::task::lock(conn, &[id.0]).await?.pop() else {
            return Ok(());
        };
        let parent = match task.parent {
            Some(parent) => store::task::state_of(conn, parent).await?,
            None => None,
        };
        if task.state != TaskState::Cancelled {
            return Ok(());
        }
        if parent.is_some_and(TaskState::is_resolved) {
            let why = "it is not done again: its parent is over";
            store::notice::person_needed(conn, id, why).await?;
            return store::task::log(conn, id, BY_REVERT, "cancel", Some(why)).await;
        }
        let waiting = task.waiting();
        self.move_to(&mut task, waiting);
        store::task::save(conn, &[&task]).await?;
        store::task::reopen_parents(conn, &[id.0]).await?;
        signals.got_work(store::queue::ready::enqueue(conn, &[id.0], &[0]).await?);
        store::task::log(conn, id, BY_REVERT, "retry", None).await
    }
}

//! Executes a person's command on a task, with all consequences, in one transaction.

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Control, EndReason, GitOperation};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::super::cascade::{self, Features, moved};
use super::super::{Signals, finish, integrate};
use super::command::{By, CommandOutcome, TaskCommand};
use super::proposal;
use crate::domain::states::{FeatureState, TaskState, Verification};
use crate::domain::status::suggestion;
use crate::flow::control::{retry, subtasks};
use crate::flow::{finish::resume, integrate::base_gate};
use crate::store;
use crate::store::feature::Locked;
use crate::store::git::integration::{ClosedIntegration, IntegrationState};
use crate::store::git::operation::Pushes;
use crate::store::task::Task;

/// Executes `command` on a task and logs the actor and `why`.
pub async fn task(
    db: &PgPool,
    id: TaskId,
    command: TaskCommand,
    by: impl Into<By<'_>>,
    why: Option<&str>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let by = by.into();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok((done, Signals::default()));
    }
    let mut outcome = task_in(&mut tx, id, command, by.actor, why).await?;
    if let CommandOutcome::Done(count) = outcome.0 {
        if by.resumes
            && let Some(feature) = store::task::feature_of(&mut tx, id).await?
        {
            let wants_work = command.tries_again();
            resume::after_decision(&mut tx, feature, wants_work, &mut outcome.1).await?;
        }
        by.note(&mut tx, count).await?;
        tx.commit().await?;
    }
    Ok(outcome)
}

/// Executes a command within the transaction of the caller, who commits it when the command took effect.
pub(in crate::flow) async fn task_in(
    tx: &mut PgConnection,
    id: TaskId,
    command: TaskCommand,
    actor: &str,
    why: Option<&str>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let Some((features, task)) = cascade::lock_task(tx, id).await? else {
        return Ok((CommandOutcome::NotFound, Signals::default()));
    };
    let mut execution = Execution {
        command,
        actor,
        why,
        features,
        signals: Signals::default(),
    };
    let outcome = match execution.execute(tx, task).await? {
        Ok(count) => CommandOutcome::Done(count),
        Err(why) => CommandOutcome::Refused(why),
    };
    Ok((outcome, execution.signals))
}

/// A command in execution, with the features that it has locked and signals for others.
struct Execution<'a> {
    command: TaskCommand,
    actor: &'a str,
    why: Option<&'a str>,
    features: Features,
    signals: Signals,
}

impl Execution<'_> {
    /// The number of tasks on which it took effect, or why it is refused.
    async fn execute(&mut self, tx: &mut PgConnection, task: Task) -> sqlx::Result<Result<usize, String>> {
        let (id, feature, command) = (task.id, task.feature, self.command);
        if command.is_for_parts(&task) {
            return Ok(Err(subtasks::refer(tx, id, command.verb(), |part| {
                command.fits(part)
            })
            .await?));
        }
        let to = match command.target(&task) {
            Ok(to) => to,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = self.refusal(tx, &task).await? {
            return Ok(Err(why));
        }
        let done = if command == TaskCommand::Retry && task.children > 0 {
            self.retry_below(tx, &task).await?
        } else if command.tries_again() {
            retry::try_again(tx, &mut self.features, vec![task], self.why, &mut self.signals).await?;
            Ok(1)
        } else {
            self.move_to(tx, task, to).await?
        };
        if done.is_err() {
            return Ok(done);
        }
        if command.tries_again() {
            let cause = base_gate::GateCause::Again;
            base_gate::follow(tx, &mut self.features, feature, cause, &mut self.signals).await?;
        }
        integrate::promote(tx, &BTreeSet::from([feature]), &mut self.signals).await?;
        store::task::log(tx, id, self.actor, command.verb(), self.why).await?;
        finish::check(tx, &mut self.features, &mut self.signals).await?;
        cascade::save_features(tx, &self.features, &mut self.signals).await?;
        Ok(done)
    }

    /// Why something other than the task's own state forbids the command. Withdraws an attempt that waits to
    /// land.
    async fn refusal(&mut self, tx: &mut PgConnection, task: &Task) -> sqlx::Result<Option<String>> {
        let again = self.command.tries_again();
        if again && let Some(held) = self.features.get_mut(&task.feature) {
            match held.state {
                FeatureState::Cancelled => {
                    let why = format!("the feature `{}` is cancelled; submit a new one", held.name);
                    return Ok(Some(why));
                }
                // The feature has work again.
                FeatureState::Done => held.state = FeatureState::Ready,
                _ => {}
            }
        }
        if again
            && let Some(parent) = task.parent
            && let Some(state) = store::task::state_of(tx, parent).await?
            && state.is_resolved()
        {
            return Ok(Some(format!(
                "its parent {parent} is {} already; submit the work again",
                state.into_str()
            )));
        }
        let feature = self.features.get(&task.feature);
        if let Some(why) = withdraw_integration(tx, task.id, feature).await? {
            return Ok(Some(why));
        }
        if task.role == SessionKind::Git
            && let Some(why) = push_refusal(tx, task, self.command, feature).await?
        {
            return Ok(Some(why));
        }
        if again {
            void_revert_refusal(tx, task).await
        } else {
            Ok(None)
        }
    }

    async fn retry_below(
        &mut self,
        tx: &mut PgConnection,
        task: &Task,
    ) -> sqlx::Result<Result<usize, String>> {
        let leaves = retry::failed_below(tx, task).await?;
        if leaves.is_empty() {
            return Ok(Err(format!(
                "nothing below {} failed or waits for a person, so there is nothing to retry",
                task.id
            )));
        }
        let ids: Vec<TaskId> = leaves.iter().map(|leaf| leaf.id).collect();
        retry::try_again(tx, &mut self.features, leaves, self.why, &mut self.signals).await?;
        for leaf in &ids {
            store::task::log(tx, *leaf, self.actor, self.command.verb(), self.why).await?;
        }
        Ok(Ok(ids.len()))
    }

    async fn move_to(
        &mut self,
        tx: &mut PgConnection,
        mut task: Task,
        to: TaskState,
    ) -> sqlx::Result<Result<usize, String>> {
        let (features, signals) = (&mut self.features, &mut self.signals);
        let (id, feature, from) = (task.id, task.feature, task.state);
        let settled = proposal::settle(tx, features, &task, to, self.actor, signals).await?;
        if let Err(why) = settled {
            return Ok(Err(why));
        }
        fence_off(tx, &mut task, signals).await?;
        store::queue::ready::withdraw(tx, &[id.0]).await?;
        moved(features, feature, from, to);
        task.state = to;
        task.next_kind = (task.children == 0).then_some(task.role);
        let reason = (to == TaskState::Failed).then_some(self.why.unwrap_or("a person failed it"));
        store::task::explain(tx, id, reason).await?;
        store::task::save(tx, &[&task]).await?;
        if from == TaskState::Failed {
            cascade::forgiven(tx, features, feature, &[], signals).await?;
        }
        match to {
            TaskState::Done | TaskState::Skipped => {
                if from == TaskState::Cancelled {
                    store::task::reopen_parents(tx, &[id.0]).await?;
                }
                cascade::resolved(tx, features, vec![id], signals).await?;
            }
            TaskState::Cancelled => cascade::cancelled(tx, features, &[id.0], signals).await?,
            TaskState::Failed => cascade::failed(tx, features, &[(feature, id)]).await?,
            _ => signals.got_work(store::queue::ready::enqueue(tx, &[id.0], &[0]).await?),
        }
        Ok(Ok(1))
    }
}

/// Takes the task's attempt out of its turn, or says why its push must end first.
async fn withdraw_integration(
    conn: &mut PgConnection,
    id: TaskId,
    feature: Option<&Locked>,
) -> sqlx::Result<Option<String>> {
    let open = store::git::integration::open_of_tasks(conn, &[id.0]).await?;
    let Some(open) = open.first() else {
        return Ok(None);
    };
    let state = feature.map_or(FeatureState::Cancelled, |held| held.state);
    // For a cancelled feature, nobody finds out whether the push arrived.
    let is_abandoned = state == FeatureState::Cancelled && open.dispatch.is_none();
    if open.state == IntegrationState::Decided && !is_abandoned {
        let finds_out = feature.and_then(|held| suggestion::finds_out(state, &held.name));
        return Ok(Some(match finds_out.filter(|_| open.dispatch.is_none()) {
            Some(finds_out) => {
                format!("its push was decided, and nobody knows whether it arrived; {finds_out}")
            }
            None => "its integration is decided and being pushed; try again in a moment".to_owned(),
        }));
    }
    let withdrawn = ClosedIntegration::without_landing(id, IntegrationState::Withdrawn);
    store::git::integration::close(conn, &withdrawn).await?;
    Ok(None)
}

/// Why a revert is void: its commit is no longer the landing of its task.
async fn void_revert_refusal(conn: &mut PgConnection, task: &Task) -> sqlx::Result<Option<String>> {
    if task.role != SessionKind::Git {
        return Ok(None);
    }
    let operation = store::git::operation::of_tasks(conn, &[task.id.0])
        .await?
        .remove(&task.id);
    let Some(GitOperation::Revert { task: of, commit, .. }) = operation else {
        return Ok(None);
    };
    let stands = store::git::operation::is_landing(conn, of, &commit).await?;
    Ok((!stands).then(|| {
        format!(
            "{commit}, the landing of {of}, was taken back before; `task revert {of}` takes its present landing back, `task cancel \
             {}` ends this task",
            task.id
        )
    }))
}

/// Why a branch operation cannot be taken from the worker that may push, or that must find out whether its
/// push arrived.
async fn push_refusal(
    conn: &mut PgConnection,
    task: &Task,
    command: TaskCommand,
    feature: Option<&Locked>,
) -> sqlx::Result<Option<String>> {
    // Nobody follows up an operation that is over or waits for a person; people may check it, or have a
    // worker check it.
    let goes_on = matches!(
        task.state,
        TaskState::Pending | TaskState::Blocked | TaskState::InProgress
    );
    Ok(match store::git::operation::pushes(conn, task.id).await? {
        Pushes::Known => None,
        _ if command.tries_again() => None,
        Pushes::UnderWay => Some(
            "its change is decided and being pushed, and a worker has yet to report the result; try again in a moment"
                .to_owned(),
        ),
        Pushes::InDoubt if !goes_on => None,
        Pushes::InDoubt => match feature {
            // For a cancelled feature, nobody finds out whether the push arrived.
            None => None,
            Some(feature) if feature.state == FeatureState::Cancelled => None,
            Some(feature) => Some(match suggestion::finds_out(feature.state, &feature.name) {
                Some(finds_out) => {
                    format!("its push was allowed, and nobody knows whether it arrived; {finds_out}")
                }
                None => {
                    "its push was allowed, and whether it arrived is not known yet; its next try finds out, so try again after that"
                        .to_owned()
                }
            }),
        },
    })
}

/// Takes a task from its worker: clears its fence, ends its session, and cancels its verification.
pub(in crate::flow) async fn fence_off(
    conn: &mut PgConnection,
    task: &mut Task,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    fence_off_because(conn, task, "a person took the task from it", signals).await
}

/// Like [`fence_off`], for this reason.
pub(in crate::flow) async fn fence_off_because(
    conn: &mut PgConnection,
    task: &mut Task,
    why: &str,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let live = store::dispatch::live_of_tasks(conn, &[task.id.0]).await?;
    let ids: Vec<Uuid> = live.iter().map(|(dispatch, _)| dispatch.0).collect();
    store::dispatch::lease::supersede(conn, &ids, why).await?;
    store::git::integration::release_turn(conn, &ids).await?;
    for (dispatch, worker) in live {
        signals.order(
            &worker,
            Control::End {
                dispatch,
                reason: EndReason::Fenced,
            },
        );
    }
    task.dispatch = None;
    if task.verification == Verification::Pending {
        task.verification = Verification::None;
    }
    Ok(())
}

//! What people do to features and tasks while they run (SPEC 2.4, 3.6, 7.4; DESIGN 2, commands on what runs).
//!
//! done, fail, cancel, skip and release move the fence: what runs is ended, and its report changes nothing any more.
//! Interrupt doesn't: the session ends in order and its report counts.

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::wire::{Control, EndReason};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::cascade::{self, Features, moved};
use super::{Signals, finish, submit};
use crate::domain::retry::Trouble;
use crate::domain::run::RunSettings;
use crate::domain::states::{FeatureState, Kind, RunOutcome, TaskState};
use crate::store;
use crate::store::feature::Text;
use crate::store::integration::{Collision, IntegrationState};
use crate::store::task::Task;

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steered {
    /// It was done; so many tasks or sessions were concerned.
    Done(usize),
    /// Nothing of that id.
    NotFound,
    /// It can't be done to something in that state.
    Refused(String),
}

/// What a person does to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskCommand {
    /// Goes on without it: dependents run.
    Skip,
    /// Takes it out: dependents don't run.
    Cancel,
    /// Fails it for good.
    Fail,
    /// Says that it is done.
    Done,
    /// Tries it again: after failure, cancel, skip or review.
    Retry,
    /// Sends back what waits for a person; only with a word on why.
    Reject,
    /// Takes it from the worker that has it, to be claimed again.
    Release,
}

impl TaskCommand {
    fn verb(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Cancel => "cancel",
            Self::Fail => "fail",
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Reject => "reject",
            Self::Release => "release",
        }
    }

    /// Whether the task is worked on again.
    fn tries_again(self) -> bool {
        matches!(self, Self::Retry | Self::Reject)
    }

    /// The state that it leads to, or why it is refused.
    fn target(self, task: &Task) -> Result<TaskState, String> {
        let refuse = || {
            Err(format!(
                "can't {} a task that is {}",
                self.verb(),
                task.state.as_str()
            ))
        };
        let cancelled_parent = self == Self::Skip && task.state == TaskState::Cancelled;
        if task.children > 0 && self != Self::Retry && !cancelled_parent {
            return Err(format!(
                "can't {} a task that has subtasks; name the subtasks",
                self.verb()
            ));
        }
        match (self, task.state) {
            (Self::Reject, state) if state != TaskState::NeedsReview => Err(format!(
                "only what waits for a person can be rejected, and {0} is {1}; `task interrupt {0} --feedback TEXT` stops what \
                 runs, `task revert {0}` takes back what landed, `task retry {0} --reason TEXT` tries again what is over",
                task.id,
                state.as_str()
            )),
            (Self::Reject, _) if task.role == Kind::Git => Err(format!(
                "{0} changes branches without an agent that could be told why: `task retry {0}` does it again, `task cancel {0}` \
                 leaves them",
                task.id
            )),
            (_, TaskState::Done) => refuse(),
            (
                Self::Retry | Self::Reject,
                TaskState::Failed | TaskState::NeedsReview | TaskState::Cancelled | TaskState::Skipped,
            ) => Ok(if task.open_blockers > 0 {
                TaskState::Blocked
            } else {
                TaskState::Pending
            }),
            (Self::Release, TaskState::InProgress) => Ok(TaskState::Pending),
            (Self::Retry | Self::Reject | Self::Release, _) => refuse(),
            (Self::Done, _) if task.role == Kind::Build => Err(format!(
                "the tasks of this feature come from this step: `task approve {0}` takes the graph that waits, `task skip \
                 {0}` goes on without",
                task.id
            )),
            (Self::Done, _) if task.role == Kind::Git => Err(format!(
                "{0} changes branches, and nobody else can say that it did: `task retry {0}` does it again, `task skip {0}` \
                 goes on without",
                task.id
            )),
            // Its dependents and its parent went on already: taking that back is a retry's.
            (_, TaskState::Skipped)
            | (Self::Cancel | Self::Fail, TaskState::Cancelled)
            | (Self::Fail, TaskState::Failed) => refuse(),
            (Self::Skip, _) => Ok(TaskState::Skipped),
            (Self::Cancel, _) => Ok(TaskState::Cancelled),
            (Self::Fail, _) => Ok(TaskState::Failed),
            (Self::Done, _) => Ok(TaskState::Done),
        }
    }
}

/// Does `command` to a task; `actor` and `why` go into its log.
pub async fn task(
    db: &PgPool,
    id: TaskId,
    command: TaskCommand,
    actor: &str,
    why: Option<&str>,
) -> sqlx::Result<(Steered, Signals)> {
    let mut tx = db.begin().await?;
    let steered = task_in(&mut tx, id, command, actor, why).await?;
    if matches!(steered.0, Steered::Done(_)) {
        tx.commit().await?;
    }
    Ok(steered)
}

/// The same within a transaction of the caller's, who commits it when it was done.
pub(super) async fn task_in(
    tx: &mut PgConnection,
    id: TaskId,
    command: TaskCommand,
    actor: &str,
    why: Option<&str>,
) -> sqlx::Result<(Steered, Signals)> {
    let mut signals = Signals::default();
    let Some(feature) = store::task::feature_of(tx, id).await? else {
        return Ok((Steered::NotFound, signals));
    };
    let mut features = cascade::lock_features(tx, &BTreeSet::from([feature])).await?;
    let Some(mut task) = store::task::lock(tx, &[id.0]).await?.pop() else {
        return Ok((Steered::NotFound, signals));
    };
    let to = match command.target(&task) {
        Ok(to) => to,
        Err(reason) => return Ok((Steered::Refused(reason), signals)),
    };
    if command.tries_again()
        && let Some(held) = features.get_mut(&feature)
    {
        match held.state {
            FeatureState::Cancelled => {
                let why = format!("the feature `{}` is cancelled; submit a new one", held.name);
                return Ok((Steered::Refused(why), signals));
            }
            // There is something to run again.
            FeatureState::Done => held.state = FeatureState::Ready,
            _ => {}
        }
    }
    if command.tries_again()
        && let Some(parent) = task.parent
        && let Some(state) = store::task::state_of(tx, parent).await?
        && state.is_resolved()
    {
        let reason = format!(
            "its parent {parent} is {} already; submit the work anew",
            state.as_str()
        );
        return Ok((Steered::Refused(reason), signals));
    }
    if let Some(decided) = store::integration::open_of_tasks(tx, &[id.0]).await?.first() {
        if decided.state == IntegrationState::Decided {
            let reason = "its integration is decided and being pushed; try again in a moment".to_owned();
            return Ok((Steered::Refused(reason), signals));
        }
        store::integration::close(
            tx,
            id,
            IntegrationState::Withdrawn,
            None,
            false,
            why,
            &Collision::default(),
        )
        .await?;
    }
    if task.role == Kind::Git && store::operation::is_decided(tx, id).await? {
        let reason = "its change is decided and being pushed, and a worker has yet to say what came of it; try again in a \
                      moment"
            .to_owned();
        return Ok((Steered::Refused(reason), signals));
    }
    if command == TaskCommand::Retry && task.children > 0 {
        let n = retry_below(tx, &mut features, &task, &mut signals).await?;
        end_of_step(tx, &mut features, id, command, actor, why, &mut signals).await?;
        return Ok((Steered::Done(n), signals));
    }
    fence_off(tx, &mut task, &mut signals).await?;
    store::ready::withdraw(tx, &[id.0]).await?;
    let from = task.state;
    moved(&mut features, feature, from, to);
    task.state = to;
    task.next_kind = (task.children == 0).then_some(task.role);
    if command.tries_again() {
        task.trouble = Trouble::default();
        store::task::explain(tx, id, None).await?;
        if matches!(task.role, Kind::Build | Kind::Review) {
            store::feature::write(tx, feature, Text::ProposedGraph, None).await?;
        }
        if let Some(why) = why {
            store::dispatch::note_feedback(tx, id, why).await?;
        }
    } else if to == TaskState::Failed {
        store::task::explain(tx, id, Some(why.unwrap_or("a person failed it"))).await?;
    }
    store::task::save(tx, &[&task]).await?;
    match to {
        TaskState::Done | TaskState::Skipped => {
            if from == TaskState::Cancelled {
                store::task::reopen_parents(tx, &[id.0]).await?;
            }
            cascade::resolved(tx, &mut features, vec![id], &mut signals).await?;
        }
        TaskState::Cancelled => cascade::cancelled(tx, &mut features, &[id.0], &mut signals).await?,
        TaskState::Failed => cascade::failed(tx, &mut features, &[(feature, id, task.parent)]).await?,
        _ => {
            if from.satisfies_dependents() {
                for dependent in store::task::block_dependents(tx, &[id.0]).await? {
                    moved(
                        &mut features,
                        dependent.feature,
                        dependent.was,
                        TaskState::Blocked,
                    );
                }
            }
            if from.is_resolved() {
                store::task::reopen_parents(tx, &[id.0]).await?;
            }
            if let Some(parent) = task.parent.filter(|_| command.tries_again()) {
                release_below(tx, parent, &mut signals).await?;
            }
            for ancestor in store::task::unfail_ancestors(tx, &[id.0]).await? {
                moved(&mut features, ancestor.feature, TaskState::Failed, ancestor.now);
            }
            signals.got_work(store::ready::enqueue(tx, &[id.0], &[0]).await?);
        }
    }
    super::integrate::promote(tx, &BTreeSet::from([feature]), &mut signals).await?;
    end_of_step(tx, &mut features, id, command, actor, why, &mut signals).await?;
    Ok((Steered::Done(1), signals))
}

/// Lets go what a failure under the policy `stop` held: the failure is being tried again.
async fn release_below(conn: &mut PgConnection, parent: TaskId, signals: &mut Signals) -> sqlx::Result<()> {
    let released = store::task::release_below(conn, parent).await?;
    let delays = vec![0; released.len()];
    signals.got_work(store::ready::enqueue(conn, &released, &delays).await?);
    Ok(())
}

async fn end_of_step(
    conn: &mut PgConnection,
    features: &mut Features,
    id: TaskId,
    command: TaskCommand,
    actor: &str,
    why: Option<&str>,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    store::task::log(conn, id, actor, command.verb(), why).await?;
    finish::check(conn, features, signals).await?;
    cascade::save_features(conn, features, signals).await
}

/// Retries the failed leaves below a parent (SPEC 2.4).
async fn retry_below(
    conn: &mut PgConnection,
    features: &mut Features,
    parent: &Task,
    signals: &mut Signals,
) -> sqlx::Result<usize> {
    let failed = store::task::failed_leaves_below(conn, parent.id).await?;
    let mut tasks = store::task::lock(conn, &failed).await?;
    for task in &mut tasks {
        let to = if task.open_blockers > 0 {
            TaskState::Blocked
        } else {
            TaskState::Pending
        };
        moved(features, task.feature, task.state, to);
        task.state = to;
        task.next_kind = Some(task.role);
        task.trouble = Trouble::default();
    }
    store::task::save(conn, &tasks.iter().collect::<Vec<_>>()).await?;
    for ancestor in store::task::unfail_ancestors(conn, &failed).await? {
        moved(features, ancestor.feature, TaskState::Failed, ancestor.now);
    }
    let delays = vec![0; failed.len()];
    signals.got_work(store::ready::enqueue(conn, &failed, &delays).await?);
    Ok(failed.len())
}

/// Takes a task from whoever has it: its fence is cleared, and its session is told to end.
async fn fence_off(conn: &mut PgConnection, task: &mut Task, signals: &mut Signals) -> sqlx::Result<()> {
    let live = store::dispatch::live_of_tasks(conn, &[task.id.0]).await?;
    let ids: Vec<Uuid> = live.iter().map(|(dispatch, _)| dispatch.0).collect();
    store::dispatch::supersede(conn, &ids, "a person took the task from it").await?;
    store::integration::release_turn(conn, &ids).await?;
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
    Ok(())
}

/// Ends the running session of a task in order; its report counts (SPEC 3.6).
pub async fn interrupt(
    db: &PgPool,
    id: TaskId,
    actor: &str,
    feedback: Option<&str>,
) -> sqlx::Result<(Steered, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let Some(feature) = store::task::feature_of(&mut tx, id).await? else {
        return Ok((Steered::NotFound, signals));
    };
    let ending = store::dispatch::ask_to_end(&mut tx, feature, Some(id), "interrupted", feedback).await?;
    if ending.is_empty() {
        return Ok((
            Steered::Refused("no session of this task runs".to_owned()),
            signals,
        ));
    }
    store::task::log(&mut tx, id, actor, "interrupt", feedback).await?;
    tx.commit().await?;
    for (dispatch, worker) in &ending {
        signals.order(
            worker,
            Control::End {
                dispatch: *dispatch,
                reason: EndReason::Interrupted,
            },
        );
    }
    Ok((Steered::Done(ending.len()), signals))
}

/// Notes what the next session of a task should know; what runs goes on.
pub async fn feedback(db: &PgPool, id: TaskId, actor: &str, words: &str) -> sqlx::Result<Steered> {
    let mut tx = db.begin().await?;
    let Some(task) = store::task::lock(&mut tx, &[id.0]).await?.pop() else {
        return Ok(Steered::NotFound);
    };
    if task.state.is_resolved() {
        return Ok(Steered::Refused(format!(
            "{id} is {}, so no session will read it; `task retry {id} --reason TEXT` or `task revert {id} --redo` does it again",
            task.state.as_str()
        )));
    }
    if !store::dispatch::note_feedback(&mut tx, id, words).await? {
        return Ok(Steered::Refused(format!(
            "no session of {id} has begun yet; `task edit {id}` changes what the first one is told"
        )));
    }
    store::task::log(&mut tx, id, actor, "feedback", Some(words)).await?;
    tx.commit().await?;
    Ok(Steered::Done(1))
}

/// What a person does to a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureCommand {
    /// Starts a run with these settings.
    Run(Box<RunSettings>),
    /// The same, of a feature whose tasks are to be written.
    Build(Box<RunSettings>),
    /// The same, of a feature whose tasks are over: it is reviewed.
    Review(Box<RunSettings>),
    /// Lets what runs end, starts nothing new.
    Pause,
    /// Goes on after a pause.
    Resume,
    /// Ends it: what runs is ended in order and pushed.
    Cancel,
}

/// Does `command` to a feature.
pub async fn feature(
    db: &PgPool,
    id: FeatureId,
    command: &FeatureCommand,
) -> sqlx::Result<(Steered, Option<RunId>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(held) = features.get_mut(&id) else {
        return Ok((Steered::NotFound, None, signals));
    };
    let refused = |verb: &str, state: FeatureState| {
        Steered::Refused(format!("can't {verb} a feature that is {}", state.as_str()))
    };
    let mut run = None;
    match command {
        FeatureCommand::Run(settings) => {
            let state = held.state;
            run = submit::start(&mut tx, id, settings, &mut signals).await?;
            if run.is_none() {
                return Ok((refused("run", state), None, signals));
            }
            tx.commit().await?;
            return Ok((Steered::Done(1), run, signals));
        }
        FeatureCommand::Build(settings) | FeatureCommand::Review(settings) => {
            let started = match command {
                FeatureCommand::Build(_) => submit::build(&mut tx, id, settings, &mut signals).await?,
                _ => submit::review_now(&mut tx, id, settings, &mut signals).await?,
            };
            return Ok(match started {
                Ok(run) => {
                    tx.commit().await?;
                    (Steered::Done(1), Some(run), signals)
                }
                Err(why) => (Steered::Refused(why), None, Signals::default()),
            });
        }
        FeatureCommand::Pause if held.state == FeatureState::Running => {
            held.state = FeatureState::Paused;
            store::ready::withdraw_feature(&mut tx, id).await?;
            cascade::save_features(&mut tx, &features, &mut signals).await?;
        }
        FeatureCommand::Resume if held.state == FeatureState::Paused => {
            held.state = FeatureState::Running;
            cascade::save_features(&mut tx, &features, &mut signals).await?;
            signals.got_work(store::ready::enqueue_feature(&mut tx, id).await?);
            super::integrate::promote(&mut tx, &BTreeSet::from([id]), &mut signals).await?;
            finish::check(&mut tx, &mut features, &mut signals).await?;
            cascade::save_features(&mut tx, &features, &mut signals).await?;
        }
        FeatureCommand::Cancel if !matches!(held.state, FeatureState::Done | FeatureState::Cancelled) => {
            if let Some(current) = held
                .current_run
                .filter(|_| matches!(held.state, FeatureState::Running | FeatureState::Paused))
            {
                let (outcome, reason) = (RunOutcome::Interrupted, "a person cancelled the feature");
                store::run::end(&mut tx, current, outcome, reason).await?;
                store::notice::run_ended(&mut tx, id, current, outcome, reason).await?;
            }
            held.state = FeatureState::Cancelled;
            store::ready::withdraw_feature(&mut tx, id).await?;
            for (dispatch, worker) in
                store::dispatch::ask_to_end(&mut tx, id, None, "interrupted", None).await?
            {
                signals.order(
                    &worker,
                    Control::End {
                        dispatch,
                        reason: EndReason::Interrupted,
                    },
                );
            }
            cascade::save_features(&mut tx, &features, &mut signals).await?;
        }
        FeatureCommand::Pause => return Ok((refused("pause", held.state), None, signals)),
        FeatureCommand::Resume => return Ok((refused("resume", held.state), None, signals)),
        FeatureCommand::Cancel => return Ok((refused("cancel", held.state), None, signals)),
    }
    tx.commit().await?;
    Ok((Steered::Done(1), run, signals))
}

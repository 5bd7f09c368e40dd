//! Commands on a task: the states that allow them, and the states that they lead to.

use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::states::TaskState;
use crate::store;
use crate::store::task::Task;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It took effect on this many tasks or sessions.
    Done(usize),
    /// Nothing has that id.
    NotFound,
    /// The present state does not allow it.
    Refused(String),
}

/// Origin of a command.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    /// Name in logs.
    pub actor: &'a str,
    /// The request of the command, which takes effect once.
    pub request: Option<Uuid>,
    /// Whether a run that ended to wait for this decision continues.
    pub resumes: bool,
}

impl<'a> From<&'a str> for By<'a> {
    fn from(actor: &'a str) -> Self {
        Self {
            actor,
            request: None,
            resumes: false,
        }
    }
}

impl By<'_> {
    /// The result of the request, if it already took effect.
    pub(in crate::flow) async fn done(self, conn: &mut PgConnection) -> sqlx::Result<Option<CommandOutcome>> {
        let Some(request) = self.request else {
            return Ok(None);
        };
        let count = store::idempotency::done(conn, request).await?;
        Ok(count.map(|count| CommandOutcome::Done(usize::try_from(count).unwrap_or(0))))
    }

    /// Records within its transaction that the request took effect.
    pub(in crate::flow) async fn note(self, conn: &mut PgConnection, count: usize) -> sqlx::Result<()> {
        match self.request {
            Some(request) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                store::idempotency::note_done(conn, request, count).await
            }
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskCommand {
    /// Continues without it: dependents run.
    Skip,
    /// Takes it out: dependents don't run.
    Cancel,
    Fail,
    /// Marks it as done.
    Done,
    /// Retries it after a failure, cancel, skip or review.
    Retry,
    /// Sends a task that waits for a person back, with a reason.
    Reject,
    /// Takes it from its worker, to be claimed again.
    Release,
}

impl TaskCommand {
    pub(in crate::flow::control) fn verb(self) -> &'static str {
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

    /// Verb for messages.
    fn words(self) -> &'static str {
        match self {
            Self::Done => "call done",
            other => other.verb(),
        }
    }

    /// Whether somebody works on the task again.
    pub(in crate::flow::control) fn tries_again(self) -> bool {
        matches!(self, Self::Retry | Self::Reject)
    }

    /// Whether it concerns the sessions of a task, and so the parts of a split task.
    pub(in crate::flow::control) fn is_for_parts(self, task: &Task) -> bool {
        let cancelled_whole = self == Self::Skip && task.state == TaskState::Cancelled;
        task.children > 0 && self != Self::Retry && !cancelled_whole
    }

    /// Whether it applies to an unfinished part in this state.
    pub(in crate::flow::control) fn fits(self, part: TaskState) -> bool {
        match self {
            Self::Release => part == TaskState::InProgress,
            Self::Reject => part == TaskState::NeedsReview,
            Self::Retry => matches!(part, TaskState::Failed | TaskState::NeedsReview),
            Self::Fail => part != TaskState::Failed,
            Self::Skip | Self::Cancel | Self::Done => true,
        }
    }

    /// The state that it leads to, or the reason for a refusal. Commands for parts were referred to them
    /// before.
    pub(in crate::flow::control) fn target(self, task: &Task) -> Result<TaskState, String> {
        let refuse = || Err(self.refusal(task));
        match (self, task.state) {
            // A parent's retry concerns the failures below it, whatever its own state, unless it is over.
            (Self::Retry, state) if task.children > 0 && !state.is_resolved() => Ok(state),
            (Self::Retry, state) if task.children > 0 => Err(format!(
                "{} is {}, like all of its parts; submit the work again",
                task.id,
                state.into_str()
            )),
            (Self::Reject, state) if state != TaskState::NeedsReview => Err(format!(
                "only a task that waits for a person can be rejected, and {0} is {1}; `task interrupt {0} --feedback TEXT` stops a \
                 running session, `task revert {0}` takes a landing back, `task retry {0} --reason TEXT` retries a task that is over",
                task.id,
                state.into_str()
            )),
            (Self::Reject | Self::Done, _) if task.role == SessionKind::Check => Err(format!(
                "{0} runs the gate on the base commit: `task retry {0}` tries it again, `task skip {0}` lets work land anyway",
                task.id
            )),
            (Self::Reject, _) if task.role == SessionKind::Git => Err(format!(
                "{0} changes branches without an agent that could read the reason: `task retry {0}` repeats it, `task cancel {0}` \
                 drops it",
                task.id
            )),
            (_, TaskState::Done) => refuse(),
            (
                Self::Retry | Self::Reject,
                TaskState::Failed | TaskState::NeedsReview | TaskState::Cancelled | TaskState::Skipped,
            )
            | (Self::Release, TaskState::InProgress) => Ok(task.waiting()),
            (Self::Retry | Self::Reject | Self::Release, _) => refuse(),
            (Self::Done, _) if task.role == SessionKind::Build => Err(format!(
                "the tasks of this feature come from this step: `task approve {0}` accepts the waiting graph, `task skip {0}` \
                 continues without one",
                task.id
            )),
            (Self::Done, _) if task.role == SessionKind::Git => Err(format!(
                "{0} changes branches, so nobody can mark it as done: `task retry {0}` repeats it, `task skip {0}` continues \
                 without it",
                task.id
            )),
            // Its dependents and its parent have already continued; only a retry undoes that.
            (_, TaskState::Skipped)
            | (Self::Cancel | Self::Fail, TaskState::Cancelled)
            | (Self::Fail, TaskState::Failed) => refuse(),
            (Self::Skip, _) => Ok(TaskState::Skipped),
            (Self::Cancel, _) => Ok(TaskState::Cancelled),
            (Self::Fail, _) => Ok(TaskState::Failed),
            (Self::Done, _) => Ok(TaskState::Done),
        }
    }

    fn refusal(self, task: &Task) -> String {
        let (id, state) = (task.id, task.state.into_str());
        match (self, task.state) {
            (Self::Done, TaskState::Done)
            | (Self::Skip, TaskState::Skipped)
            | (Self::Cancel, TaskState::Cancelled)
            | (Self::Fail, TaskState::Failed) => format!("{id} is {state} already"),
            (Self::Retry, TaskState::Done) => {
                format!("{id} is done; if it landed, `task revert {id} --redo` repeats it")
            }
            _ => format!("can't {} a task that is {state}", self.words()),
        }
    }
}

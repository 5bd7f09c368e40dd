//! Messages of a person to a task's sessions: the running one, and later ones.

use ralph_shared::ids::TaskId;
use ralph_shared::wire::EndReason;
use sqlx::PgPool;

use super::super::{Signals, finish};
use super::command::{By, CommandOutcome};
use crate::domain::states::TaskState;
use crate::flow::control::subtasks;
use crate::store;

/// Ends the running session of a task in order; its report counts (SPEC 3.6).
pub async fn interrupt(
    db: &PgPool,
    id: TaskId,
    by: impl Into<By<'_>>,
    feedback: Option<&str>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let by = by.into();
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok((done, signals));
    }
    let Some(feature) = store::task::feature_of(&mut tx, id).await? else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let ending =
        finish::end_sessions(&mut tx, feature, Some(id), EndReason::Interrupted, &mut signals).await?;
    if ending == 0 {
        let why = if store::task::dependencies::children_of(&mut tx, &[id.0])
            .await?
            .is_empty()
        {
            "no session of this task runs".to_owned()
        } else {
            let runs = |state| state == TaskState::InProgress;
            subtasks::refer(&mut tx, id, "interrupt", runs).await?
        };
        return Ok((CommandOutcome::Refused(why), signals));
    }
    if let Some(words) = feedback {
        store::dispatch::note_feedback(&mut tx, id, words).await?;
    }
    store::task::log(&mut tx, id, by.actor, "interrupt", feedback).await?;
    by.note(&mut tx, ending).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(ending), signals))
}

/// Stores feedback for the task's next session; the running one continues.
pub async fn feedback(
    db: &PgPool,
    id: TaskId,
    by: impl Into<By<'_>>,
    words: &str,
) -> sqlx::Result<CommandOutcome> {
    let by = by.into();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok(done);
    }
    let Some(task) = store::task::lock(&mut tx, &[id.0]).await?.pop() else {
        return Ok(CommandOutcome::NotFound);
    };
    if task.state.is_resolved() {
        return Ok(CommandOutcome::Refused(format!(
            "{id} is {}, so no session will read it; `task retry {id} --reason TEXT` or `task revert {id} --redo` does it again",
            task.state.as_str()
        )));
    }
    if task.children > 0 {
        let why = subtasks::refer(&mut tx, id, "feedback", |_| true).await?;
        return Ok(CommandOutcome::Refused(why));
    }
    if !store::dispatch::note_feedback(&mut tx, id, words).await? {
        return Ok(CommandOutcome::Refused(format!(
            "no session of {id} has begun yet; `task edit {id}` changes what the first one is told"
        )));
    }
    store::task::log(&mut tx, id, by.actor, "feedback", Some(words)).await?;
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok(CommandOutcome::Done(1))
}

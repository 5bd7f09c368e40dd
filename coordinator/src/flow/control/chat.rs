//! Messages of a person to a task's running and later sessions. A message to a running session is also stored
//! as feedback, so that the next session knows it, whatever becomes of this one.

use ralph_shared::ids::TaskId;
use ralph_shared::sigil::SigilName;
use ralph_shared::wire::{Control, EndReason};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::super::{Signals, cascade, finish};
use super::command::{By, CommandOutcome, TaskCommand};
use crate::domain::question::{self, AnswerInput};
use crate::domain::states::TaskState;
use crate::flow::control::{subtasks, task_in};
use crate::flow::finish::resume;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};

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
            "{id} is {}, so no session will read it; `task retry {id} --reason TEXT` or `task revert {id} --redo` repeats it",
            task.state.into_str()
        )));
    }
    if task.children > 0 {
        let why = subtasks::refer(&mut tx, id, "feedback", |_| true).await?;
        return Ok(CommandOutcome::Refused(why));
    }
    if !store::dispatch::note_feedback(&mut tx, id, words).await? {
        return Ok(CommandOutcome::Refused(format!(
            "no session of {id} has begun yet; `task edit {id}` changes the task for the first one"
        )));
    }
    store::task::log(&mut tx, id, by.actor, "feedback", Some(words)).await?;
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok(CommandOutcome::Done(1))
}

/// Sends a message to the task's running session, which gets it as its next turn.
pub async fn say(
    db: &PgPool,
    id: TaskId,
    by: impl Into<By<'_>>,
    words: &str,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let by = by.into();
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok((done, signals));
    }
    let Some(task) = store::task::lock(&mut tx, &[id.0]).await?.pop() else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    if task.children > 0 {
        let runs = |state| state == TaskState::InProgress;
        let why = subtasks::refer(&mut tx, id, "say", runs).await?;
        return Ok((CommandOutcome::Refused(why), signals));
    }
    let live: Vec<Uuid> = task.dispatch.iter().map(|dispatch| dispatch.0).collect();
    let live = store::dispatch::read(&mut tx, &live).await?.pop();
    // Sessions that judge work get no messages from people.
    let hears = |one: &Dispatch| SigilName::Question.is_allowed_for(one.kind);
    let Some(session) = live.filter(|one| one.state == DispatchState::Live && hears(one)) else {
        let why = format!(
            "no session of {id} runs; `task feedback {id} --reason TEXT` leaves a message for the next one"
        );
        return Ok((CommandOutcome::Refused(why), signals));
    };
    store::question::say(&mut tx, session.id, None, by.actor, words).await?;
    store::dispatch::note_feedback(&mut tx, id, words).await?;
    store::task::log(&mut tx, id, by.actor, "say", Some(words)).await?;
    signals.order(&session.worker, Control::Beat);
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), signals))
}

/// Answers a question of the task's sessions: the named one, else the first open one. A session that waits
/// for the answer continues. If it ended because nobody answered, a new attempt begins with the answer.
pub async fn answer(
    db: &PgPool,
    id: TaskId,
    by: impl Into<By<'_>>,
    named: Option<Uuid>,
    given: AnswerInput<'_>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let by = by.into();
    let mut tx = db.begin().await?;
    if let Some(done) = by.done(&mut tx).await? {
        return Ok((done, Signals::default()));
    }
    let answered = answer_in(&mut tx, id, by, named, given).await?;
    if let CommandOutcome::Done(count) = answered.0 {
        by.note(&mut tx, count).await?;
        tx.commit().await?;
    }
    Ok(answered)
}

async fn answer_in(
    tx: &mut PgConnection,
    id: TaskId,
    by: By<'_>,
    named: Option<Uuid>,
    given: AnswerInput<'_>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut signals = Signals::default();
    let refused = |why| Ok((CommandOutcome::Refused(why), Signals::default()));
    // A report that ends this session waits for this lock, and then finds the answer.
    let Some((_, task)) = cascade::lock_task(tx, id).await? else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let questions = store::question::of_task(tx, id).await?;
    let asked = match question::resolve(id, &questions, named) {
        Ok(asked) => asked,
        Err(why) => return refused(why),
    };
    if task.state.is_resolved() {
        return refused(format!(
            "{id} is {}, so no session will read the answer",
            task.state.into_str()
        ));
    }
    let text = match question::answer(&asked.question, given) {
        Ok(text) => text,
        Err(why) => return refused(why),
    };
    store::question::answer(tx, asked.id, text, by.actor).await?;
    let note = format!("{} answers \"{}\": {text}", by.actor, asked.question.asked);
    store::dispatch::note_feedback(tx, id, &note).await?;
    store::task::log(tx, id, by.actor, "answer", Some(text)).await?;
    signals.features.insert(task.feature);
    if let Some(worker) = &asked.live_on {
        store::question::say(tx, asked.dispatch, Some(asked.id), by.actor, text).await?;
        signals.order(worker, Control::Beat);
    }
    let waits_on = |other: &&question::TaskQuestion| {
        other.dispatch == asked.dispatch && other.id != asked.id && other.waits && other.answer.is_none()
    };
    let ended_for_it = task.state == TaskState::NeedsReview && asked.ended && asked.waits;
    if ended_for_it && !questions.iter().any(|other| waits_on(&other)) {
        let (outcome, more) = task_in(tx, id, TaskCommand::Retry, by.actor, None).await?;
        signals.merge(more);
        if let CommandOutcome::Refused(why) = outcome {
            return refused(why);
        }
        if by.resumes {
            resume::after_decision(tx, task.feature, true, &mut signals).await?;
        }
    }
    Ok((CommandOutcome::Done(1), signals))
}

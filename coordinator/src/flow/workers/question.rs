//! What sessions that run want: the answer of a person to a question.

use ralph_shared::ids::DispatchId;
use ralph_shared::sigil::Question;
use ralph_shared::wire::{Call, CallAnswer, SessionCall, Words};
use sqlx::PgPool;
use uuid::Uuid;

use crate::flow::{Settings, Signals};
use crate::prompt;
use crate::prompt::Templates;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};
use crate::store::question::Unheard;

/// Questions of one session; an agent in a loop asks more.
const MOST_QUESTIONS: i64 = 50;

/// Answers a session's call, of the life that holds its dispatch.
pub async fn call(
    db: &PgPool,
    settings: &Settings,
    call: &SessionCall,
) -> sqlx::Result<(CallAnswer, Signals)> {
    let refused = |reason: &str| {
        let reason = reason.to_owned();
        Ok((CallAnswer::Refused { reason }, Signals::default()))
    };
    let mut conn = db.acquire().await?;
    let named = store::dispatch::read(&mut conn, &[call.dispatch.0]).await?.pop();
    drop(conn);
    let Some(dispatch) =
        named.filter(|d| d.state == DispatchState::Live && d.incarnation == call.incarnation)
    else {
        return refused("the session is not its task's any more");
    };
    match &call.call {
        Call::Ask { id, asked, choices } => match Question::new(asked, choices) {
            Some(question) => ask(db, settings, &dispatch, *id, &question).await,
            None => refused("the question says nothing"),
        },
        Call::MemorySearch { .. } | Call::Unknown => refused("this coordinator doesn't know the call"),
    }
}

/// Stores a question, and says for how long a person may answer. Asked again, it is the same question.
async fn ask(
    db: &PgPool,
    settings: &Settings,
    dispatch: &Dispatch,
    id: Uuid,
    question: &Question,
) -> sqlx::Result<(CallAnswer, Signals)> {
    let mut signals = Signals::default();
    let wait_ms = i64::try_from(settings.question_wait.as_millis()).unwrap_or(i64::MAX);
    let mut tx = db.begin().await?;
    let whose = (dispatch.id, dispatch.task);
    if store::question::asked_by(&mut tx, dispatch.id).await? >= MOST_QUESTIONS
        && store::question::waits_ms(&mut tx, id, dispatch.id).await?.is_none()
    {
        let prompt = prompt::decide(&settings.templates);
        return Ok((CallAnswer::Decide { prompt }, signals));
    }
    if store::question::ask(&mut tx, id, whose, question, wait_ms).await? {
        if wait_ms > 0 {
            let task = dispatch.task;
            let reason = format!("it asks: {}\n`task answer {task}` answers it", question.words());
            store::notice::person_needed(&mut tx, task, &reason).await?;
        }
        signals.features.insert(dispatch.feature);
    }
    let left = store::question::waits_ms(&mut tx, id, dispatch.id).await?;
    tx.commit().await?;
    let answer = match left.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) => CallAnswer::Wait { ms },
        None => CallAnswer::Decide {
            prompt: prompt::decide(&settings.templates),
        },
    };
    Ok((answer, signals))
}

/// What a person said, as a worker hands it to its session.
pub(super) fn told(templates: &Templates, words: Unheard) -> Words {
    let asked = words.question.as_ref().map(|(_, asked)| asked.as_str());
    Words {
        prompt: prompt::said(templates, &words.by, &words.text, asked),
        id: words.id,
        dispatch: DispatchId(words.dispatch.0),
        question: words.question.map(|(id, _)| id),
        by: words.by,
        text: words.text,
    }
}

//! The people of a dispatch's session, whom its coordinator reaches.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use ralph_shared::at_length::by_length;
use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Question, SigilName, Verdict};
use ralph_shared::wire::{Assignment, Call, CallAnswer, EndReason, SessionCall};
use uuid::Uuid;

use crate::instance::Instance;
use crate::session::{NOBODY, People, Reply};

/// Pause between tries to ask.
const PAUSE: Duration = Duration::from_secs(1);

/// The people of a session; `None` for kinds that ask nobody.
pub fn people(instance: &Arc<Instance>, assignment: &Assignment) -> Option<People> {
    let (kind, task, dispatch) = (assignment.kind, assignment.task, assignment.dispatch);
    if !SigilName::Question.is_taken_from(kind) {
        return None;
    }
    let said = instance.audience.begin(dispatch);
    let instance = Arc::clone(instance);
    let asking = move |question| ask(Arc::clone(&instance), dispatch, question).boxed();
    Some(People::new(
        asking,
        move |text: &str| question(kind, task, text),
        said,
    ))
}

/// What a turn's text asks, if it says nothing that ends the session.
fn question(kind: SessionKind, task: TaskId, text: &str) -> Option<Question> {
    if !text.contains("<question") {
        return None;
    }
    let context = sigil::Context {
        kind,
        task_id: &task.short(),
        model_tiers: &[],
    };
    let sigils = by_length(text.len(), || sigil::parse(text, &context));
    if sigils.verdict(kind) != Verdict::None || sigils.promise.is_some() || text.contains("<document>") {
        return None;
    }
    match &sigils.questions[..] {
        [one] => Some(one.clone()),
        all => {
            let asked: Vec<String> = all.iter().map(Question::words).collect();
            Question::new(&asked.join("\n"), [""; 0])
        }
    }
}

/// Asks until a coordinator answers, and waits for a person as long as it says. A session that nobody answers in time is ended.
async fn ask(instance: Arc<Instance>, dispatch: DispatchId, question: Question) -> Reply {
    let id = Uuid::now_v7();
    let answer = instance.audience.answer(dispatch, id);
    let call = SessionCall {
        dispatch,
        incarnation: instance.incarnation,
        call: Call::Ask {
            id,
            asked: instance.redactor.text(&question.asked),
            choices: question
                .choices
                .iter()
                .map(|choice| instance.redactor.text(choice))
                .collect(),
        },
    };
    let wait = loop {
        match instance.link.session(&call).await {
            Ok(CallAnswer::Wait { ms }) => break Duration::from_millis(ms),
            Ok(CallAnswer::Decide { prompt }) => return Reply::Decide(prompt),
            Ok(_) => return Reply::Decide(NOBODY.to_owned()),
            Err(error) => {
                tracing::debug!(%dispatch, error = format!("{error:#}"), "a question could not be asked yet");
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    match tokio::time::timeout(wait, answer).await {
        Ok(Ok(words)) => Reply::Answered(words),
        Ok(Err(_)) | Err(_) => {
            instance.end(dispatch, EndReason::Unanswered);
            // The session ends meanwhile.
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_turn_that_leaves_its_session_open_may_ask() {
        let task = TaskId::new();
        let check = |kind, text: &str, expected: Option<&str>| {
            let asked = question(kind, task, text).map(|question| question.words());
            assert_eq!(asked.as_deref(), expected, "{text}");
        };
        let asks = "<question choices='A|B'>Which?</question>";
        check(SessionKind::Work, asks, Some("Which? (A | B)"));
        let two = format!("{asks} or <question>How?</question>");
        check(SessionKind::Work, &two, Some("Which? (A | B)\nHow?"));
        let done = format!("{asks} <task-done>{}</task-done>", task.short());
        check(SessionKind::Work, &done, None);
        check(
            SessionKind::Spec,
            &format!("<document>\nx\n</document> {asks}"),
            None,
        );
        check(SessionKind::Spec, asks, Some("Which? (A | B)"));
        check(SessionKind::Verify, asks, None);
        check(SessionKind::Work, &format!("```\n{asks}\n```"), None);
        check(SessionKind::Work, "none", None);
    }
}

//! The people of a dispatch's session, reached through its coordinator.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ralph_shared::at_length::by_length;
use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Question, SigilName, Verdict};
use ralph_shared::wire::{Assignment, Call, CallAnswer, EndReason, SessionCall};
use uuid::Uuid;

use crate::instance::Instance;
use crate::session::{NOBODY, People, Reach, Reply, TurnOutcome};

/// Pause between tries to send a question.
const PAUSE: Duration = Duration::from_secs(1);

/// The people of a session. `None` for kinds that may not ask.
pub fn people(instance: &Arc<Instance>, assignment: &Assignment) -> Option<People> {
    let (kind, task, dispatch) = (assignment.kind, assignment.task, assignment.dispatch);
    if !SigilName::Question.is_allowed_for(kind) {
        return None;
    }
    let messages = instance.audience.begin(dispatch);
    let reach = Coordinator {
        instance: Arc::clone(instance),
        dispatch,
        kind,
        task,
    };
    Some(People::new(reach, messages))
}

struct Coordinator {
    instance: Arc<Instance>,
    dispatch: DispatchId,
    kind: SessionKind,
    task: TaskId,
}

impl Reach for Coordinator {
    fn ask(&self, question: Question) -> BoxFuture<'static, Reply> {
        ask(Arc::clone(&self.instance), self.dispatch, question).boxed()
    }

    fn read(&self, text: &str) -> TurnOutcome {
        turn(self.kind, self.task, text)
    }

    fn give_up(&self) {
        self.instance.end(self.dispatch, EndReason::Unanswered);
    }
}

/// How a session continues after a turn's text.
fn turn(kind: SessionKind, task: TaskId, text: &str) -> TurnOutcome {
    let context = sigil::Context {
        kind,
        task_id: &task.short(),
        model_tiers: &[],
    };
    let sigils = by_length(text.len(), || sigil::parse(text, &context));
    if sigils.verdict(kind) != Verdict::None || sigils.promise.is_some() || text.contains("<document>") {
        return TurnOutcome::Over;
    }
    TurnOutcome::Open(match &sigils.questions[..] {
        [one] => Some(one.clone()),
        all => {
            let asked: Vec<String> = all.iter().map(Question::words).collect();
            Question::new(&asked.join("\n"), [""; 0])
        }
    })
}

/// Sends the question until a coordinator answers, then waits for a person as long as the coordinator says.
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
        match instance.broker.session(&call).await {
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
        Ok(Err(_)) | Err(_) => Reply::Unanswered,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_turn_without_a_final_sigil_may_ask_a_question() {
        let task = TaskId::new();
        let check = |kind, text: &str, expected: Option<Option<&str>>| {
            let expected = match expected {
                None => TurnOutcome::Over,
                Some(asked) => TurnOutcome::Open(asked.and_then(|asked| Question::new(asked, [""; 0]))),
            };
            let read = match turn(kind, task, text) {
                TurnOutcome::Open(Some(question)) => {
                    TurnOutcome::Open(Question::new(&question.words(), [""; 0]))
                }
                other => other,
            };
            assert_eq!(read, expected, "{text}");
        };
        let asks = "<question choices='A|B'>Which?</question>";
        check(SessionKind::Work, asks, Some(Some("Which? (A | B)")));
        let two = format!("{asks} or <question>How?</question>");
        check(SessionKind::Work, &two, Some(Some("Which? (A | B)\nHow?")));
        let done = format!("{asks} <task-done>{}</task-done>", task.short());
        check(SessionKind::Work, &done, None);
        check(
            SessionKind::Spec,
            &format!("<document>\nx\n</document> {asks}"),
            None,
        );
        check(SessionKind::Spec, asks, Some(Some("Which? (A | B)")));
        check(SessionKind::Verify, asks, Some(None));
        check(SessionKind::Work, &format!("```\n{asks}\n```"), Some(None));
        check(SessionKind::Work, "none", Some(None));
    }
}

//! Finds the question that a person answers, and reads the answer.

use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::sigil::Question;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// A question of a task's session.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskQuestion {
    pub id: Uuid,
    pub dispatch: DispatchId,
    pub question: Question,
    /// Whether its session waited for a person.
    pub waits: bool,
    /// Whether its session ended since nobody answered.
    pub ended: bool,
    /// The worker of its session, while that runs.
    pub live_on: Option<String>,
    /// The answer, its author and its time.
    pub answer: Option<(String, String, OffsetDateTime)>,
}

/// A person's answer: words, or the number of a choice from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerInput<'a> {
    Text(&'a str),
    Choice(usize),
}

/// Finds the question: the named one, else the first that a session waits for, else the last. The error says
/// who already answered it, or that there is none.
pub fn resolve(
    task: TaskId,
    questions: &[TaskQuestion],
    named: Option<Uuid>,
) -> Result<&TaskQuestion, String> {
    let open = || questions.iter().filter(|one| one.answer.is_none());
    let found = match named {
        Some(id) => questions.iter().find(|one| one.id == id),
        None => open()
            .find(|one| one.waits)
            .or_else(|| open().next_back())
            .or_else(|| {
                questions
                    .iter()
                    .max_by_key(|one| one.answer.as_ref().map(|(.., at)| *at))
            }),
    };
    let Some(found) = found else {
        return Err(match named {
            Some(_) => format!("{task} asked no such question"),
            None => format!(
                "{task} asked nothing; `task say {task}` sends a message to a running session, `task feedback {task}` to the next one"
            ),
        });
    };
    match &found.answer {
        None => Ok(found),
        Some((text, by, at)) => Err(format!(
            "{by} answered that already, at {}: {text}",
            at.format(&Rfc3339).unwrap_or_default()
        )),
    }
}

/// The answer in words. A question with choices also accepts other words.
pub fn answer<'a>(question: &'a Question, given: AnswerInput<'a>) -> Result<&'a str, String> {
    match given {
        AnswerInput::Text(text) if text.trim().is_empty() => {
            Err("the answer is empty; write at least a word".to_owned())
        }
        AnswerInput::Text(text) => Ok(question.choice(text).unwrap_or(text)),
        AnswerInput::Choice(number) => {
            let at = number.checked_sub(1);
            let choice = at.and_then(|at| question.choices.get(at)).map(String::as_str);
            choice.ok_or_else(|| match question.choices.len() {
                0 => "it has no choices; answer it in words".to_owned(),
                n => format!("its choices are 1 to {n}, not {number}"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(n: u128, waits: bool, answered: bool) -> TaskQuestion {
        let at = OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(i64::try_from(n).unwrap());
        TaskQuestion {
            id: Uuid::from_u128(n),
            dispatch: DispatchId::new(),
            question: Question::new("Which?", ["A", "B"]).unwrap(),
            waits,
            ended: false,
            live_on: None,
            answer: answered.then(|| ("A".to_owned(), "ann".to_owned(), at)),
        }
    }

    #[test]
    fn an_answer_is_for_the_first_awaited_question_and_counts_once() {
        let task = TaskId::new();
        let check = |questions: &[TaskQuestion], named: Option<u128>, expected: Result<u128, &str>| {
            let found = resolve(task, questions, named.map(Uuid::from_u128));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.id, Uuid::from_u128(expected)),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (found, expected) => panic!("{found:?} {expected:?}"),
            }
        };
        let (idle, waits, also) = (
            asked(1, false, false),
            asked(2, true, false),
            asked(3, true, false),
        );
        let answered = asked(4, true, true);
        check(&[idle.clone(), waits.clone(), also.clone()], None, Ok(2));
        check(&[idle.clone(), waits.clone(), also], Some(3), Ok(3));
        check(&[idle.clone(), answered.clone()], None, Ok(1));
        let twice = "ann answered that already, at 1970-01-01T00:00:04Z: A";
        check(&[idle, answered.clone()], Some(4), Err(twice));
        check(std::slice::from_ref(&answered), None, Err(twice));
        check(&[waits], Some(9), Err("no such question"));
        check(&[], None, Err("asked nothing"));
    }

    #[test]
    fn an_answer_is_a_choice_or_words() {
        let question = Question::new("Which?", ["A", "B"]).unwrap();
        let check = |given, expected: Result<&str, &str>| match (answer(&question, given), expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, expected) => panic!("{found:?} {expected:?}"),
        };
        check(AnswerInput::Choice(2), Ok("B"));
        check(AnswerInput::Choice(0), Err("1 to 2, not 0"));
        check(AnswerInput::Choice(3), Err("1 to 2, not 3"));
        check(AnswerInput::Text("b"), Ok("B"));
        check(AnswerInput::Text("neither: C"), Ok("neither: C"));
        check(AnswerInput::Text(" \n"), Err("answer is empty"));
        let free = Question::new("Which?", [""; 0]).unwrap();
        assert!(answer(&free, AnswerInput::Choice(1)).is_err());
    }
}

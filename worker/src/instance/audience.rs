//! What people say to the sessions of one instance: heartbeats bring it, and tell that it was heard.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::Words;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// Most ids in one heartbeat; the next one has the others.
const MOST_HEARD: usize = 100;

/// The sessions that can be spoken to.
#[derive(Debug, Default)]
pub struct Audience(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<DispatchId, Listener>,
    /// What was handed to sessions, until a coordinator knows it.
    heard: BTreeSet<Uuid>,
}

#[derive(Debug)]
struct Listener {
    said: mpsc::UnboundedSender<Words>,
    /// Who waits for the answers to its questions.
    answers: HashMap<Uuid, oneshot::Sender<Words>>,
    /// What it has already: heartbeats bring it until they have told that it was heard.
    had: BTreeSet<Uuid>,
}

impl Audience {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session begins. Gives what is said to it but for the answers to its questions.
    pub fn begin(&self, dispatch: DispatchId) -> mpsc::UnboundedReceiver<Words> {
        let (said, receiver) = mpsc::unbounded_channel();
        let listener = Listener {
            said,
            answers: HashMap::new(),
            had: BTreeSet::new(),
        };
        self.lock().sessions.insert(dispatch, listener);
        receiver
    }

    /// It is over.
    pub fn end(&self, dispatch: DispatchId) {
        self.lock().sessions.remove(&dispatch);
    }

    /// Gives the answer to a question of a session, once it comes.
    pub fn answer(&self, dispatch: DispatchId, question: Uuid) -> oneshot::Receiver<Words> {
        let (sender, receiver) = oneshot::channel();
        if let Some(session) = self.lock().sessions.get_mut(&dispatch) {
            session.answers.insert(question, sender);
        }
        receiver
    }

    /// Hands words to their sessions. An answer that nobody waits for any more is said like anything else.
    pub fn take(&self, words: Vec<Words>) {
        let mut state = self.lock();
        for words in words {
            let id = words.id;
            let Some(session) = state.sessions.get_mut(&words.dispatch) else {
                continue;
            };
            if session.had.insert(id) {
                let waits = words
                    .question
                    .and_then(|question| session.answers.remove(&question));
                let left = match waits {
                    Some(waits) => waits.send(words).err(),
                    None => Some(words),
                };
                if let Some(words) = left {
                    // A session that ends hears nothing more; the next one is told.
                    let _ = session.said.send(words);
                }
            }
            state.heard.insert(id);
        }
    }

    /// What was heard, as far as no coordinator knows it.
    pub fn heard(&self) -> Vec<Uuid> {
        self.lock().heard.iter().take(MOST_HEARD).copied().collect()
    }

    /// A coordinator knows it of these.
    pub fn is_known(&self, heard: &[Uuid]) {
        let mut state = self.lock();
        for id in heard {
            state.heard.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn words(dispatch: DispatchId, question: Option<Uuid>, text: &str) -> Words {
        Words {
            id: Uuid::now_v7(),
            dispatch,
            question,
            by: "ann".to_owned(),
            text: text.to_owned(),
            prompt: text.to_owned(),
        }
    }

    #[test]
    fn words_are_handed_over_once_and_told_until_that_is_known() {
        let (audience, dispatch) = (Audience::default(), DispatchId::new());
        let (hello, question) = (words(dispatch, None, "hello"), Uuid::now_v7());
        audience.take(vec![hello.clone()]);
        assert!(audience.heard().is_empty(), "its session has not begun");
        let mut said = audience.begin(dispatch);
        let mut answer = audience.answer(dispatch, question);
        let answered = words(dispatch, Some(question), "yes");
        for _ in 0..2 {
            audience.take(vec![hello.clone(), answered.clone()]);
        }
        assert_eq!(said.try_recv().unwrap(), hello);
        assert!(said.try_recv().is_err());
        assert_eq!(answer.try_recv().unwrap(), answered);
        assert_eq!(audience.heard().len(), 2);
        audience.is_known(&[hello.id]);
        assert_eq!(audience.heard(), [answered.id]);
        let late = words(dispatch, Some(question), "no");
        audience.take(vec![late.clone()]);
        assert_eq!(said.try_recv().unwrap(), late);
        audience.end(dispatch);
        audience.take(vec![words(dispatch, None, "bye")]);
        assert_eq!(audience.heard().len(), 2);
    }
}

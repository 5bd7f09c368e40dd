//! Messages from people to an instance's sessions. Heartbeats bring them and confirm that sessions got them.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::Words;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// Most ids in one heartbeat. The next one has the rest.
const MOST_DELIVERED: usize = 100;

/// The sessions that can receive messages.
#[derive(Debug, Default)]
pub struct Audience(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<DispatchId, Listener>,
    /// Delivered messages that no coordinator has acknowledged yet.
    delivered: BTreeSet<Uuid>,
}

#[derive(Debug)]
struct Listener {
    messages: mpsc::UnboundedSender<Words>,
    /// Waiting questions.
    answers: HashMap<Uuid, oneshot::Sender<Words>>,
    /// Delivered messages: heartbeats repeat them until their delivery is confirmed.
    had: BTreeSet<Uuid>,
}

impl Audience {
    /// Adds a session. Returns its messages other than answers to its questions.
    pub fn begin(&self, dispatch: DispatchId) -> mpsc::UnboundedReceiver<Words> {
        let (messages, receiver) = mpsc::unbounded_channel();
        let listener = Listener {
            messages,
            answers: HashMap::new(),
            had: BTreeSet::new(),
        };
        self.0.lock().sessions.insert(dispatch, listener);
        receiver
    }

    pub fn end(&self, dispatch: DispatchId) {
        self.0.lock().sessions.remove(&dispatch);
    }

    /// Waits for the answer to a session's question.
    pub fn answer(&self, dispatch: DispatchId, question: Uuid) -> oneshot::Receiver<Words> {
        let (sender, receiver) = oneshot::channel();
        if let Some(session) = self.0.lock().sessions.get_mut(&dispatch) {
            session.answers.insert(question, sender);
        }
        receiver
    }

    /// Delivers messages to their sessions. An answer that nobody waits for counts as an ordinary message.
    pub fn take(&self, words: Vec<Words>) {
        let mut state = self.0.lock();
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
                    // A session that ends gets nothing more. The next session gets the message.
                    let _ = session.messages.send(words);
                }
            }
            state.delivered.insert(id);
        }
    }

    /// Delivered messages that no coordinator has acknowledged.
    pub fn delivered(&self) -> Vec<Uuid> {
        self.0
            .lock()
            .delivered
            .iter()
            .take(MOST_DELIVERED)
            .copied()
            .collect()
    }

    /// Removes messages that a coordinator acknowledged.
    pub fn acknowledge(&self, delivered: &[Uuid]) {
        let mut state = self.0.lock();
        for id in delivered {
            state.delivered.remove(id);
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
    fn messages_are_delivered_once_and_confirmed_until_acknowledged() {
        let (audience, dispatch) = (Audience::default(), DispatchId::new());
        let (hello, question) = (words(dispatch, None, "hello"), Uuid::now_v7());
        audience.take(vec![hello.clone()]);
        assert!(audience.delivered().is_empty(), "its session has not begun");
        let mut messages = audience.begin(dispatch);
        let mut answer = audience.answer(dispatch, question);
        let answered = words(dispatch, Some(question), "yes");
        for _ in 0..2 {
            audience.take(vec![hello.clone(), answered.clone()]);
        }
        assert_eq!(messages.try_recv().unwrap(), hello);
        assert!(messages.try_recv().is_err());
        assert_eq!(answer.try_recv().unwrap(), answered);
        assert_eq!(audience.delivered().len(), 2);
        audience.acknowledge(&[hello.id]);
        assert_eq!(audience.delivered(), [answered.id]);
        let late = words(dispatch, Some(question), "no");
        audience.take(vec![late.clone()]);
        assert_eq!(messages.try_recv().unwrap(), late);
        audience.end(dispatch);
        audience.take(vec![words(dispatch, None, "bye")]);
        assert_eq!(audience.delivered().len(), 2);
    }
}

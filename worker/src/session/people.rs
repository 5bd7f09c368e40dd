//! People outside a session: questions from the agent to them, and their messages. The caller decides who
//! they are and how to reach them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::{Mutex, MutexGuard};
use ralph_shared::sigil::Question;
use ralph_shared::wire::Words;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// The time on the runtime's clock, which its timers use.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Answered(Words),
    /// Nobody is there. The text tells the agent to decide itself.
    Decide(String),
    /// Somebody could have answered, but nobody did in time.
    Unanswered,
}

/// How a session continues after a turn's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The text says how the session ends.
    Over,
    /// The session stays open. The text may contain a question.
    Open(Option<Question>),
}

pub trait Reach: Send + Sync {
    /// Asks a question and waits for a reply.
    fn ask(&self, question: Question) -> BoxFuture<'static, Reply>;
    /// Reads the agent's text of one turn.
    fn read(&self, text: &str) -> TurnOutcome;
    /// Ends the session because nobody answers.
    fn give_up(&self);
}

/// A reply with several waiters.
type Pending = Shared<BoxFuture<'static, Reply>>;

/// How long a tool waits for an answer: MCP clients abort calls after a minute.
const TOOL_WAIT: Duration = Duration::from_secs(45);

/// A tool's answer to the agent while no reply has come.
const LATER: &str = "Nobody has answered yet. If you can't go on without the answer, end your turn now: the answer starts your next turn. \
                     Otherwise go on; you get the answer when it comes.";

/// The people of a session. Cheap to clone.
#[derive(Clone)]
pub struct People {
    reach: Arc<dyn Reach>,
    /// Unanswered questions from tools.
    open: Arc<Mutex<Vec<Pending>>>,
    messages: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Words>>>,
    parking: Arc<Parking>,
}

impl People {
    /// `messages` brings their messages to the agent.
    pub fn new(reach: impl Reach + 'static, messages: mpsc::UnboundedReceiver<Words>) -> Self {
        Self {
            reach: Arc::new(reach),
            open: Arc::default(),
            messages: Arc::new(tokio::sync::Mutex::new(messages)),
            parking: Arc::default(),
        }
    }

    /// Asks for a session that can't continue without a reply. The session's clocks stop meanwhile. Without a
    /// reply in time the session ends.
    pub async fn ask(&self, question: Question) -> Reply {
        let _parked = Parked::new(&self.parking);
        self.or_end(self.reach.ask(question).await).await
    }

    async fn or_end(&self, reply: Reply) -> Reply {
        if reply == Reply::Unanswered {
            self.reach.give_up();
            // Wait until the session ends.
            std::future::pending::<()>().await;
        }
        reply
    }

    /// Asks for a tool. Answers before the tool's client aborts the call.
    pub async fn ask_by_tool(&self, question: Question) -> String {
        let asking = AbortOnDropHandle::new(tokio::spawn(self.reach.ask(question)));
        let pending = asking
            .map(|reply| reply.unwrap_or(Reply::Unanswered))
            .boxed()
            .shared();
        self.open().push(pending.clone());
        let _parked = Parked::new(&self.parking);
        let reply = tokio::time::timeout(TOOL_WAIT, pending.clone()).await;
        let Ok(reply) = reply else {
            return LATER.to_owned();
        };
        self.open().retain(|other| !other.ptr_eq(&pending));
        match reply {
            Reply::Answered(words) => words.prompt,
            Reply::Decide(prompt) => prompt,
            Reply::Unanswered => LATER.to_owned(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.open.lock()
    }

    /// The oldest unanswered question from a tool.
    pub fn open_question(&self) -> Option<impl Future<Output = Reply> + use<>> {
        let mut open = self.open();
        if open.is_empty() {
            return None;
        }
        let pending = open.remove(0);
        drop(open);
        let people = self.clone();
        Some(async move {
            let _parked = Parked::new(&people.parking);
            people.or_end(pending.await).await
        })
    }

    /// How the session continues after a turn's text.
    pub fn read(&self, text: &str) -> TurnOutcome {
        self.reach.read(text)
    }

    /// Waits for a person's next message.
    pub async fn next_message(&self) -> Words {
        match self.messages.lock().await.recv().await {
            Some(words) => words,
            None => std::future::pending().await,
        }
    }

    /// Messages received so far.
    pub async fn pending_messages(&self) -> Vec<Words> {
        let mut messages = self.messages.lock().await;
        std::iter::from_fn(|| messages.try_recv().ok()).collect()
    }

    /// Time that the session spent waiting for people since the last call.
    pub fn waited(&self, now: Instant) -> Duration {
        self.parking.take(now)
    }
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("People")
    }
}

#[derive(Debug, Default)]
struct Parking(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    questions: usize,
    since: Option<Instant>,
    /// Waiting time of closed questions, not yet taken.
    waited: Duration,
}

impl Parking {
    fn take(&self, now: Instant) -> Duration {
        let mut waiting = self.0.lock();
        let of_open = waiting.since.replace(now).map(|since| now - since);
        if waiting.questions == 0 {
            waiting.since = None;
        }
        std::mem::take(&mut waiting.waited) + of_open.unwrap_or_default()
    }
}

/// Counts a question as open until it is dropped.
struct Parked(Arc<Parking>);

impl Parked {
    fn new(parking: &Arc<Parking>) -> Self {
        let mut waiting = parking.0.lock();
        waiting.questions += 1;
        waiting.since.get_or_insert_with(now);
        Self(Arc::clone(parking))
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut waiting = self.0.0.lock();
        waiting.questions -= 1;
        if waiting.questions == 0
            && let Some(since) = waiting.since.take()
        {
            waiting.waited += now() - since;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_time_with_an_open_question_counts_as_waiting() {
        let parking = Arc::new(Parking::default());
        let pass = |s| tokio::time::advance(Duration::from_secs(s));
        let taken = || parking.take(now()).as_secs();
        pass(5).await;
        assert_eq!(taken(), 0);
        let first = Parked::new(&parking);
        pass(2).await;
        let second = Parked::new(&parking);
        pass(3).await;
        assert_eq!(taken(), 5);
        drop(first);
        pass(4).await;
        drop(second);
        pass(100).await;
        assert_eq!((taken(), taken()), (4, 0));
    }
}

//! People outside of a session: what its agent asks them, and what they say to it. Who they are, and how their words come here, the
//! caller knows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use ralph_shared::sigil::Question;
use ralph_shared::wire::Words;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// The time by the runtime's clock, which its timers go by.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What comes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A person answered.
    Answered(Words),
    /// Nobody is there: the agent is told this.
    Decide(String),
    /// A person could have answered, and nobody did in time.
    Unanswered,
}

/// What a turn's text leaves to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// Nothing: it says how the session ends.
    Over,
    /// It leaves the session open, and may ask something.
    Open(Option<Question>),
}

/// How people are reached.
pub trait Reach: Send + Sync {
    /// Puts a question to them, until there is a reply.
    fn ask(&self, question: Question) -> BoxFuture<'static, Reply>;
    /// Reads what an agent said in one turn.
    fn read(&self, text: &str) -> TurnOutcome;
    /// Has the session ended, since nobody answers.
    fn give_up(&self);
}

/// A reply that several wait for.
type Pending = Shared<BoxFuture<'static, Reply>>;

/// How long a tool waits for an answer: clients of MCP give calls up after a minute.
const TOOL_WAIT: Duration = Duration::from_secs(45);

/// What an agent is told that asked by a tool.
const LATER: &str = "Nobody has answered yet. If you can't go on without the answer, end your turn now: you are told it as your next one. \
                     Else go on; you are told it when it comes.";

/// The people of a session. Cheap to clone.
#[derive(Clone)]
pub struct People {
    reach: Arc<dyn Reach>,
    /// Questions that a tool asked and that are open still.
    open: Arc<Mutex<Vec<Pending>>>,
    said: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Words>>>,
    parking: Arc<Parking>,
}

impl People {
    /// Those that are reached so; what they say of themselves comes by `said`.
    pub fn new(reach: impl Reach + 'static, said: mpsc::UnboundedReceiver<Words>) -> Self {
        Self {
            reach: Arc::new(reach),
            open: Arc::default(),
            said: Arc::new(tokio::sync::Mutex::new(said)),
            parking: Arc::default(),
        }
    }

    /// Asks, for a session that can't go on without a reply: its clocks stand still meanwhile, and it is ended where there is none in
    /// time.
    pub async fn ask(&self, question: Question) -> Reply {
        let _parked = Parked::new(&self.parking);
        self.or_end(self.reach.ask(question).await).await
    }

    async fn or_end(&self, reply: Reply) -> Reply {
        if reply == Reply::Unanswered {
            self.reach.give_up();
            // The session ends meanwhile.
            std::future::pending::<()>().await;
        }
        reply
    }

    /// Asks by a tool, which gives what it knows before its client gives it up.
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
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first question that a tool asked and that is open still.
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

    /// What a turn's text leaves to be done.
    pub fn read(&self, text: &str) -> TurnOutcome {
        self.reach.read(text)
    }

    /// What a person says next.
    pub async fn heard(&self) -> Words {
        match self.said.lock().await.recv().await {
            Some(words) => words,
            None => std::future::pending().await,
        }
    }

    /// What they said by now.
    pub async fn heard_so_far(&self) -> Vec<Words> {
        let mut said = self.said.lock().await;
        std::iter::from_fn(|| said.try_recv().ok()).collect()
    }

    /// Since when nothing was asked: how long the session waited for people since the last call.
    pub fn waited(&self, now: Instant) -> Duration {
        self.parking.take(now)
    }
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("People")
    }
}

/// How long a session waited for people.
#[derive(Debug, Default)]
struct Parking(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Questions that are open.
    questions: usize,
    since: Option<Instant>,
    /// Of earlier questions, as far as it was not taken.
    waited: Duration,
}

impl Parking {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, now: Instant) -> Duration {
        let mut waiting = self.lock();
        let of_open = waiting.since.replace(now).map(|since| now - since);
        if waiting.questions == 0 {
            waiting.since = None;
        }
        std::mem::take(&mut waiting.waited) + of_open.unwrap_or_default()
    }
}

/// One open question.
struct Parked(Arc<Parking>);

impl Parked {
    fn new(parking: &Arc<Parking>) -> Self {
        let mut waiting = parking.lock();
        waiting.questions += 1;
        waiting.since.get_or_insert_with(now);
        Self(Arc::clone(parking))
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
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
    async fn only_the_time_with_an_open_question_is_waited() {
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

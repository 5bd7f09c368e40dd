//! People outside of a session: what its agent asks them, and what they say to it. Who they are, and how their words come here, the
//! caller knows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use ralph_shared::sigil::Question;
use ralph_shared::wire::Words;
use tokio::sync::mpsc;

use super::conversation::now;

/// What comes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A person answered.
    Answered(Words),
    /// Nobody is there: the agent is told this.
    Decide(String),
}

/// Puts a question to people, until there is a reply. The session is told to end where there is none in time.
pub type Asking = dyn Fn(Question) -> BoxFuture<'static, Reply> + Send + Sync;

/// What an agent's text of one turn asks, where it leaves its session open.
pub type Reading = dyn Fn(&str) -> Option<Question> + Send + Sync;

/// The people of a session. Cheap to clone.
#[derive(Clone)]
pub struct People {
    asking: Arc<Asking>,
    reading: Arc<Reading>,
    said: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Words>>>,
    parking: Arc<Parking>,
}

impl People {
    /// Those that `asking` reaches; what they say of themselves comes by `said`.
    pub fn new(
        asking: impl Fn(Question) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
        reading: impl Fn(&str) -> Option<Question> + Send + Sync + 'static,
        said: mpsc::UnboundedReceiver<Words>,
    ) -> Self {
        Self {
            asking: Arc::new(asking),
            reading: Arc::new(reading),
            said: Arc::new(tokio::sync::Mutex::new(said)),
            parking: Arc::default(),
        }
    }

    /// Asks. The session's clocks stand still meanwhile.
    pub async fn ask(&self, question: Question) -> Reply {
        let _parked = Parked::new(&self.parking);
        (self.asking)(question).await
    }

    /// What a turn's text asks.
    pub fn question(&self, text: &str) -> Option<Question> {
        (self.reading)(text)
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

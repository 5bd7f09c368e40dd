//! Claims that found nothing and wait for a moment. They get tasks that become ready meanwhile, or find room,
//! which is faster than a ticket. Nothing depends on them: tasks that nobody gets have tickets, and another
//! claim finds tasks that this one cannot use.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::Message;
use parking_lot::{Mutex, MutexGuard};
use ralph_shared::wire::ClaimRequest;
use tokio::sync::Notify;

use crate::domain::scheduling::fairness::Unserved;

/// Longest wait of a claim, whatever it asks for: a worker that is gone meanwhile could still get work.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Most waiting claims; further ones get an answer at once.
const MAX_WAITING: usize = 4096;
/// A claim that waits for its response.
#[derive(Debug)]
pub struct PendingClaim {
    pub claim: ClaimRequest,
    /// The request that brought it.
    pub message: Message,
    /// End of its wait.
    until: Instant,
    /// The result of its last query.
    unserved: Unserved,
}

impl PendingClaim {
    /// A claim that came now.
    pub fn new(claim: ClaimRequest, message: Message) -> Self {
        let wait = Duration::from_millis(claim.wait_ms).min(MAX_WAIT);
        Self {
            claim,
            message,
            until: Instant::now() + wait,
            unserved: Unserved::Unknown,
        }
    }
}

/// Counts of tasks and ended dispatches that no waiting claim got.
#[derive(Debug, Clone, Default)]
pub struct MissedTickets {
    /// New tasks by pool.
    tasks: BTreeMap<String, u64>,
    /// Ended dispatches.
    ended: u64,
}

impl MissedTickets {
    fn since(&self, before: &Self) -> Self {
        let tasks = self.tasks.iter().map(|(pool, missed)| {
            let before = before.tasks.get(pool).copied().unwrap_or(0);
            (pool.clone(), missed - before)
        });
        Self {
            tasks: tasks.filter(|(_, new)| *new > 0).collect(),
            ended: self.ended - before.ended,
        }
    }

    /// Takes one of a pool's new tasks, or of the ended dispatches for a claim without room. Returns whether
    /// there was one.
    fn take(&mut self, claim: &ClaimRequest, unserved: Unserved) -> bool {
        if let Some(pool) = claim.pools.iter().find(|pool| self.tasks.contains_key(*pool)) {
            match self.tasks.get_mut(pool) {
                Some(left) if *left > 1 => *left -= 1,
                _ => {
                    self.tasks.remove(pool);
                }
            }
            return true;
        }
        let ended = unserved == Unserved::NoRoom && self.ended > 0;
        self.ended -= u64::from(ended);
        ended
    }
}

#[derive(Debug, Default)]
pub struct Waiting {
    held: Mutex<WaitingState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct WaitingState {
    /// Whether somebody serves claims here.
    is_served: bool,
    missed: MissedTickets,
    waiting: VecDeque<PendingClaim>,
    due: Vec<PendingClaim>,
}

impl WaitingState {
    fn may_wait(&self, until: Instant) -> bool {
        self.is_served && until > Instant::now() && self.waiting.len() < MAX_WAITING
    }

    /// Makes matching claims due for a query, longest wait first. Returns their number.
    fn wake(&mut self, most: u64, which: impl Fn(&PendingClaim) -> bool) -> u64 {
        let mut woken = 0;
        let mut at = 0;
        while woken < most && at < self.waiting.len() {
            if !which(&self.waiting[at]) {
                at += 1;
            } else if let Some(asked) = self.waiting.remove(at) {
                self.due.push(asked);
                woken += 1;
            }
        }
        woken
    }
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, WaitingState> {
        self.held.lock()
    }

    /// Lets claims wait here.
    pub fn open(&self) {
        self.state().is_served = true;
    }

    /// Ends all waits. Returns the claims that waited.
    pub fn close(&self) -> Vec<PendingClaim> {
        let mut held = self.state();
        held.is_served = false;
        let mut left = std::mem::take(&mut held.due);
        left.extend(held.waiting.drain(..));
        left
    }

    /// The counts so far; read them before the query for a claim.
    pub fn missed_tickets(&self) -> MissedTickets {
        self.state().missed.clone()
    }

    /// Announces new tasks of a pool. Returns the number of claims that query for them now.
    pub fn tell(&self, pool: &str, tasks: i64) -> i64 {
        let tasks = u64::try_from(tasks).unwrap_or(0);
        let mut held = self.state();
        let woken = held.wake(tasks, |asked| asked.claim.pools.iter().any(|of| of == pool));
        let left = tasks - woken;
        match held.missed.tasks.get_mut(pool) {
            Some(missed) => *missed += left,
            None => {
                held.missed.tasks.insert(pool.to_owned(), left);
            }
        }
        drop(held);
        if woken > 0 {
            self.changed.notify_one();
        }
        i64::try_from(woken).unwrap_or(0)
    }

    /// Announces ended dispatches. Claims that lacked room query again.
    pub fn ended(&self, dispatches: u64) {
        let mut held = self.state();
        let woken = held.wake(dispatches, |asked| asked.unserved == Unserved::NoRoom);
        held.missed.ended += dispatches - woken;
        drop(held);
        if woken > 0 {
            self.changed.notify_one();
        }
    }

    /// Keeps claims that got nothing, with the reason. Claims whose pools got work or room since `before`
    /// query again at once. Returns the claims that may not wait.
    pub fn keep(&self, asked: Vec<(PendingClaim, Unserved)>, before: &MissedTickets) -> Vec<PendingClaim> {
        let mut held = self.state();
        let mut since = held.missed.since(before);
        let mut over = Vec::new();
        for (one, unserved) in asked {
            let one = PendingClaim { unserved, ..one };
            if !held.may_wait(one.until) {
                over.push(one);
            } else if since.take(&one.claim, unserved) {
                held.due.push(one);
            } else {
                held.waiting.push_back(one);
            }
        }
        let any_due = !held.due.is_empty();
        drop(held);
        if any_due {
            self.changed.notify_one();
        }
        over
    }

    /// Resolves when claims are due for a query.
    pub async fn due(&self) {
        loop {
            if !self.state().due.is_empty() {
                return;
            }
            self.changed.notified().await;
        }
    }

    /// Takes at most `most` due claims.
    pub fn take_due(&self, most: usize) -> Vec<PendingClaim> {
        let mut held = self.state();
        let taken = held.due.len().min(most);
        held.due.drain(..taken).collect()
    }

    /// Takes claims whose time is over.
    pub fn take_over(&self) -> Vec<PendingClaim> {
        let now = Instant::now();
        let mut held = self.state();
        let (over, waiting) = std::mem::take(&mut held.waiting)
            .into_iter()
            .partition(|one| one.until <= now);
        held.waiting = waiting;
        let over: VecDeque<PendingClaim> = over;
        over.into()
    }

    pub fn is_empty(&self) -> bool {
        self.state().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ralph_shared::ids::{DispatchId, Incarnation};

    use super::*;

    fn asked(pools: &[&str], wait_ms: u64) -> PendingClaim {
        let claim = ClaimRequest {
            reads: Vec::new(),
            worker: "w".to_owned(),
            incarnation: Incarnation::new(),
            claim: DispatchId::new(),
            pools: pools.iter().map(|pool| (*pool).to_owned()).collect(),
            agents: Vec::new(),
            wait_ms,
            checks: true,
        };
        let message = Message {
            subject: "claim".into(),
            reply: None,
            payload: Bytes::new(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        PendingClaim::new(claim, message)
    }

    fn ids(asked: &[PendingClaim]) -> Vec<DispatchId> {
        asked.iter().map(|one| one.claim.claim).collect()
    }

    fn open() -> Waiting {
        let waiting = Waiting::default();
        waiting.open();
        waiting
    }

    /// Keeps claims without work, as if nothing changed since their query.
    fn keep(waiting: &Waiting, asked: Vec<PendingClaim>, left: Unserved) -> Vec<PendingClaim> {
        keep_since(waiting, asked, left, &waiting.missed_tickets())
    }

    fn keep_since(
        waiting: &Waiting,
        asked: Vec<PendingClaim>,
        left: Unserved,
        before: &MissedTickets,
    ) -> Vec<PendingClaim> {
        waiting.keep(asked.into_iter().map(|one| (one, left)).collect(), before)
    }

    #[test]
    fn work_goes_to_the_claim_that_waits_longest_in_its_pool() {
        let waiting = open();
        let all: Vec<_> = [&["a"][..], &["b"], &["a", "b"], &["b"]]
            .map(|pools| asked(pools, 1_000))
            .into();
        let id = ids(&all);
        assert!(keep(&waiting, all, Unserved::Nothing).is_empty());
        assert_eq!(waiting.tell("b", 2), 2);
        assert_eq!(waiting.tell("c", 1), 0);
        assert_eq!(ids(&waiting.take_due(1)), [id[1]]);
        assert_eq!(ids(&waiting.take_due(9)), [id[2]]);
        assert_eq!(waiting.tell("a", 5), 1);
        assert_eq!(ids(&waiting.close()), [id[0], id[3]]);
    }

    #[test]
    fn work_that_arrives_during_a_query_is_not_missed() {
        let waiting = open();
        waiting.tell("a", 7);
        let before = waiting.missed_tickets();
        waiting.tell("a", 1);
        let all = vec![asked(&["b"], 1_000), asked(&["a"], 1_000), asked(&["a"], 1_000)];
        let id = ids(&all);
        assert!(keep_since(&waiting, all, Unserved::Nothing, &before).is_empty());
        assert_eq!(ids(&waiting.take_due(9)), [id[1]]);
        assert!(!waiting.is_empty());
    }

    #[test]
    fn claims_without_room_query_again_when_dispatches_end() {
        let waiting = open();
        let before = waiting.missed_tickets();
        let all: Vec<_> = [(); 3].map(|()| asked(&["a"], 1_000)).into();
        let id = ids(&all);
        let nothing = asked(&["a"], 1_000);
        assert!(keep(&waiting, vec![nothing], Unserved::Nothing).is_empty());
        assert!(keep(&waiting, all, Unserved::NoRoom).is_empty());
        waiting.ended(2);
        assert_eq!(ids(&waiting.take_due(9)), id[..2]);
        waiting.ended(4);
        assert_eq!(ids(&waiting.take_due(9)), id[2..]);
        // Three of these ended during the next queries.
        let late: Vec<_> = [(); 4].map(|()| asked(&["a"], 1_000)).into();
        let id = ids(&late);
        assert!(keep_since(&waiting, late, Unserved::NoRoom, &before).is_empty());
        assert_eq!(ids(&waiting.take_due(9)), id[..3]);
        assert_eq!(waiting.close().len(), 2);
    }

    #[test]
    fn no_claim_waits_too_long_or_without_a_service() {
        let waiting = open();
        let at_once = asked(&["a"], 0);
        let id = at_once.claim.claim;
        assert_eq!(ids(&keep(&waiting, vec![at_once], Unserved::Nothing)), [id]);
        keep(&waiting, vec![asked(&["a"], 1)], Unserved::Nothing);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(waiting.take_over().len(), 1);
        assert!(waiting.is_empty());
        waiting.close();
        let one = asked(&["a"], 1_000);
        assert_eq!(keep(&waiting, vec![one], Unserved::Nothing).len(), 1);
    }
}

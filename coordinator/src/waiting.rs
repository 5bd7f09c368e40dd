//! Claims that found nothing and wait for a moment: what becomes ready meanwhile is handed to them, which saves it the way over a
//! ticket. Nothing depends on them: what nobody is handed gets its ticket, and what a claim can't use another one finds (DESIGN 1.5).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Message;
use ralph_shared::wire::ClaimRequest;
use tokio::sync::Notify;

/// The longest that a claim waits, whatever it asks for: a worker that went away meanwhile may be given work yet.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Claims that may wait at once; further ones are answered.
const MAX_WAITING: usize = 4096;

/// A claim on its way to an answer.
#[derive(Debug)]
pub struct Asked {
    /// The claim.
    pub claim: ClaimRequest,
    /// The request that it came with.
    pub message: Message,
    /// How long it may wait for work.
    until: Instant,
}

impl Asked {
    /// A claim that came now.
    pub fn new(claim: ClaimRequest, message: Message) -> Self {
        let wait = Duration::from_millis(claim.wait_ms).min(MAX_WAIT);
        Self {
            claim,
            message,
            until: Instant::now() + wait,
        }
    }
}

/// How many tasks pools had got by then that no waiting claim was handed.
#[derive(Debug, Clone, Default)]
pub struct Told(BTreeMap<String, u64>);

/// The claims that wait with one coordinator.
#[derive(Debug, Default)]
pub struct Waiting {
    held: Mutex<Held>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    /// Whether somebody serves claims here.
    is_served: bool,
    told: Told,
    waiting: VecDeque<Asked>,
    due: Vec<Asked>,
}

impl Waiting {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on claims may wait here.
    pub fn open(&self) {
        self.held().is_served = true;
    }

    /// Lets no claim wait any more. Returns those that did.
    pub fn close(&self) -> Vec<Asked> {
        let mut held = self.held();
        held.is_served = false;
        let mut left = std::mem::take(&mut held.due);
        left.extend(held.waiting.drain(..));
        left
    }

    /// What was told so far. To be asked for before it is looked what there is for a claim.
    pub fn told(&self) -> Told {
        self.held().told.clone()
    }

    /// A pool got so many tasks. Returns how many claims look for them now.
    pub fn tell(&self, pool: &str, tasks: i64) -> i64 {
        let tasks = u64::try_from(tasks).unwrap_or(0);
        let mut held = self.held();
        let mut woken = 0;
        let mut at = 0;
        while woken < tasks && at < held.waiting.len() {
            if !held.waiting[at].claim.pools.iter().any(|of| of == pool) {
                at += 1;
            } else if let Some(asked) = held.waiting.remove(at) {
                held.due.push(asked);
                woken += 1;
            }
        }
        let left = tasks - woken;
        match held.told.0.get_mut(pool) {
            Some(told) => *told += left,
            None => {
                held.told.0.insert(pool.to_owned(), left);
            }
        }
        drop(held);
        if woken > 0 {
            self.changed.notify_one();
        }
        i64::try_from(woken).unwrap_or(0)
    }

    /// Keeps claims for which there was nothing. Those look again at once whose pools got work since `before`. Returns those
    /// that may not wait.
    pub fn keep(&self, asked: Vec<Asked>, before: &Told) -> Vec<Asked> {
        let now = Instant::now();
        let mut held = self.held();
        let mut since: BTreeMap<String, u64> = BTreeMap::new();
        for (pool, told) in &held.told.0 {
            let new = told - before.0.get(pool).copied().unwrap_or(0);
            if new > 0 {
                since.insert(pool.clone(), new);
            }
        }
        let mut over = Vec::new();
        for one in asked {
            let missed = one.claim.pools.iter().find(|pool| since.contains_key(*pool));
            if one.until <= now || !held.is_served || held.waiting.len() >= MAX_WAITING {
                over.push(one);
            } else if let Some(pool) = missed {
                match since.get_mut(pool) {
                    Some(left) if *left > 1 => *left -= 1,
                    _ => {
                        since.remove(pool);
                    }
                }
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

    /// Waits until there are claims that are to look again.
    pub async fn due(&self) {
        loop {
            if !self.held().due.is_empty() {
                return;
            }
            self.changed.notified().await;
        }
    }

    /// Takes those that are to look again, at most so many.
    pub fn take_due(&self, most: usize) -> Vec<Asked> {
        let mut held = self.held();
        let taken = held.due.len().min(most);
        held.due.drain(..taken).collect()
    }

    /// Takes those whose time is over.
    pub fn take_over(&self) -> Vec<Asked> {
        let now = Instant::now();
        let mut held = self.held();
        let (over, waiting) = std::mem::take(&mut held.waiting)
            .into_iter()
            .partition(|one| one.until <= now);
        held.waiting = waiting;
        let over: VecDeque<Asked> = over;
        over.into()
    }

    /// Whether any claim waits.
    pub fn is_empty(&self) -> bool {
        self.held().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ralph_shared::ids::{DispatchId, Incarnation};

    use super::*;

    fn asked(pools: &[&str], wait_ms: u64) -> Asked {
        let claim = ClaimRequest {
            reads: Vec::new(),
            worker: "w".to_owned(),
            incarnation: Incarnation::new(),
            claim: DispatchId::new(),
            pools: pools.iter().map(|pool| (*pool).to_owned()).collect(),
            agents: Vec::new(),
            wait_ms,
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
        Asked::new(claim, message)
    }

    fn ids(asked: &[Asked]) -> Vec<DispatchId> {
        asked.iter().map(|one| one.claim.claim).collect()
    }

    fn open() -> Waiting {
        let waiting = Waiting::default();
        waiting.open();
        waiting
    }

    #[test]
    fn who_waits_longest_in_a_pool_is_handed_its_work() {
        let waiting = open();
        let before = waiting.told();
        let all: Vec<_> = [&["a"][..], &["b"], &["a", "b"], &["b"]]
            .map(|pools| asked(pools, 1_000))
            .into();
        let id = ids(&all);
        assert!(waiting.keep(all, &before).is_empty());
        assert_eq!(waiting.tell("b", 2), 2);
        assert_eq!(waiting.tell("c", 1), 0);
        assert_eq!(ids(&waiting.take_due(1)), [id[1]]);
        assert_eq!(ids(&waiting.take_due(9)), [id[2]]);
        assert_eq!(waiting.tell("a", 5), 1);
        assert_eq!(ids(&waiting.close()), [id[0], id[3]]);
    }

    #[test]
    fn what_came_while_it_was_looked_is_not_missed() {
        let waiting = open();
        waiting.tell("a", 7);
        let before = waiting.told();
        waiting.tell("a", 1);
        let all = vec![asked(&["b"], 1_000), asked(&["a"], 1_000), asked(&["a"], 1_000)];
        let id = ids(&all);
        assert!(waiting.keep(all, &before).is_empty());
        assert_eq!(ids(&waiting.take_due(9)), [id[1]]);
        assert!(!waiting.is_empty());
    }

    #[test]
    fn nobody_waits_too_long_or_where_nobody_serves() {
        let waiting = open();
        let before = waiting.told();
        let at_once = asked(&["a"], 0);
        let id = at_once.claim.claim;
        assert_eq!(ids(&waiting.keep(vec![at_once], &before)), [id]);
        waiting.keep(vec![asked(&["a"], 1)], &before);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(waiting.take_over().len(), 1);
        assert!(waiting.is_empty());
        waiting.close();
        assert_eq!(waiting.keep(vec![asked(&["a"], 1_000)], &before).len(), 1);
    }
}

//! Claims that found nothing and wait for a moment: what becomes ready meanwhile, or finds room, is handed to them, which saves it the
//! way over a ticket. Who claims just after such a look waits as well, without one of its own. Nothing depends on them: what nobody is
//! handed gets its ticket, and what a claim can't use another one finds (DESIGN 1.5).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Message;
use ralph_shared::ids::Incarnation;
use ralph_shared::wire::ClaimRequest;
use tokio::sync::Notify;

use crate::domain::fairness::Left;

/// The longest that a claim waits, whatever it asks for: a worker that went away meanwhile may be given work yet.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Claims that may wait at once; further ones are answered.
const MAX_WAITING: usize = 4096;
/// For so long after a look that found nothing a worker's next claims wait without one: what becomes ready by time alone, or with
/// another coordinator, is told by the tickets only that follow.
const BARREN: Duration = Duration::from_millis(100);
/// Looks that found nothing of so many workers are remembered before old ones are forgotten.
const MANY_BARREN: usize = 256;

/// A claim on its way to an answer.
#[derive(Debug)]
pub struct Asked {
    /// The claim.
    pub claim: ClaimRequest,
    /// The request that it came with.
    pub message: Message,
    /// How long it may wait for work.
    until: Instant,
    /// What there was for it when it was looked last.
    left: Left,
    /// Whether it looks for a task that it was handed.
    is_handed: bool,
}

impl Asked {
    /// A claim that came now.
    pub fn new(claim: ClaimRequest, message: Message) -> Self {
        let wait = Duration::from_millis(claim.wait_ms).min(MAX_WAIT);
        Self {
            claim,
            message,
            until: Instant::now() + wait,
            left: Left::Unknown,
            is_handed: false,
        }
    }
}

/// What had been told by then that no waiting claim was handed.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// How many tasks pools had got.
    tasks: BTreeMap<String, u64>,
    /// How many dispatches had ended.
    ended: u64,
}

impl Told {
    /// What was told since `before`.
    fn since(&self, before: &Self) -> Self {
        let tasks = self.tasks.iter().map(|(pool, told)| {
            let before = before.tasks.get(pool).copied().unwrap_or(0);
            (pool.clone(), told - before)
        });
        Self {
            tasks: tasks.filter(|(_, new)| *new > 0).collect(),
            ended: self.ended - before.ended,
        }
    }

    /// Takes one of a pool's tasks, or of the ended dispatches for a claim that there is no room for. Whether there was one.
    fn take(&mut self, claim: &ClaimRequest, left: Left) -> bool {
        if let Some(pool) = claim.pools.iter().find(|pool| self.tasks.contains_key(*pool)) {
            match self.tasks.get_mut(pool) {
                Some(left) if *left > 1 => *left -= 1,
                _ => {
                    self.tasks.remove(pool);
                }
            }
            return true;
        }
        let ended = left == Left::NoRoom && self.ended > 0;
        self.ended -= u64::from(ended);
        ended
    }
}

/// What a worker offered when there was nothing for it.
#[derive(Debug)]
struct Barren {
    incarnation: Incarnation,
    pools: Vec<String>,
    agents: Vec<String>,
    at: Instant,
}

impl Barren {
    fn of(claim: &ClaimRequest) -> Self {
        Self {
            incarnation: claim.incarnation,
            pools: claim.pools.clone(),
            agents: claim.agents.clone(),
            at: Instant::now(),
        }
    }

    fn is_of(&self, claim: &ClaimRequest) -> bool {
        self.incarnation == claim.incarnation && self.pools == claim.pools && self.agents == claim.agents
    }

    fn is_within(&self, believed: Duration) -> bool {
        self.at.elapsed() < believed
    }
}

/// The claims that wait with one coordinator.
#[derive(Debug)]
pub struct Waiting {
    held: Mutex<Held>,
    changed: Notify,
    /// How long it is believed that there was nothing.
    believed: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            changed: Notify::default(),
            believed: BARREN,
        }
    }
}

#[derive(Debug, Default)]
struct Held {
    /// Whether somebody serves claims here.
    is_served: bool,
    told: Told,
    waiting: VecDeque<Asked>,
    due: Vec<Asked>,
    /// The last looks that found nothing, by worker.
    barren: HashMap<String, Barren>,
}

impl Held {
    /// Whether a claim may wait that would be kept until `until`.
    fn may_wait(&self, until: Instant) -> bool {
        self.is_served && until > Instant::now() && self.waiting.len() < MAX_WAITING
    }

    /// Has waiting claims look for which this holds, those first that wait longest. Returns how many.
    fn wake(&mut self, most: u64, is_handed: bool, which: impl Fn(&Asked) -> bool) -> u64 {
        let mut woken = 0;
        let mut at = 0;
        while woken < most && at < self.waiting.len() {
            if !which(&self.waiting[at]) {
                at += 1;
            } else if let Some(asked) = self.waiting.remove(at) {
                self.due.push(Asked { is_handed, ..asked });
                woken += 1;
            }
        }
        woken
    }

    /// Remembers what a look found, unless something was told meanwhile.
    fn note(&mut self, asked: &Asked, told: &BTreeSet<String>) {
        if asked.is_handed {
            // What it was handed may be for others.
            self.barren.clear();
        }
        if asked.left != Left::Nothing || asked.claim.pools.iter().any(|pool| told.contains(pool)) {
            return;
        }
        if self.barren.len() >= MANY_BARREN {
            self.barren.retain(|_, barren| barren.is_within(BARREN));
        }
        self.barren
            .insert(asked.claim.worker.clone(), Barren::of(&asked.claim));
    }
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

    /// Lets a new claim wait without a look, if there was nothing for its worker just now. Gives back one that has to look.
    pub fn park(&self, asked: Asked) -> Option<Asked> {
        let mut held = self.held();
        let barren = held.barren.get(&asked.claim.worker);
        let is_barren = asked.claim.is_new
            && barren.is_some_and(|barren| barren.is_of(&asked.claim) && barren.is_within(self.believed));
        if !is_barren || !held.may_wait(asked.until) {
            return Some(asked);
        }
        held.waiting.push_back(Asked {
            left: Left::Nothing,
            ..asked
        });
        None
    }

    /// A pool got so many tasks. Returns how many claims look for them now.
    pub fn tell(&self, pool: &str, tasks: i64) -> i64 {
        let tasks = u64::try_from(tasks).unwrap_or(0);
        let mut held = self.held();
        let woken = held.wake(tasks, true, |asked| asked.claim.pools.iter().any(|of| of == pool));
        let left = tasks - woken;
        if left > 0 {
            held.barren
                .retain(|_, barren| barren.pools.iter().all(|of| of != pool));
        }
        match held.told.tasks.get_mut(pool) {
            Some(told) => *told += left,
            None => {
                held.told.tasks.insert(pool.to_owned(), left);
            }
        }
        drop(held);
        if woken > 0 {
            self.changed.notify_one();
        }
        i64::try_from(woken).unwrap_or(0)
    }

    /// So many dispatches ended. Claims look again for whose tasks there was no room.
    pub fn ended(&self, dispatches: u64) {
        let mut held = self.held();
        let woken = held.wake(dispatches, false, |asked| asked.left == Left::NoRoom);
        held.told.ended += dispatches - woken;
        drop(held);
        if woken > 0 {
            self.changed.notify_one();
        }
    }

    /// Keeps claims that got nothing, with what there was left. Those look again at once whose pools got work since `before`, or room.
    /// Returns those that may not wait.
    pub fn keep(&self, asked: Vec<(Asked, Left)>, before: &Told) -> Vec<Asked> {
        let mut held = self.held();
        let mut since = held.told.since(before);
        let told: BTreeSet<String> = since.tasks.keys().cloned().collect();
        let mut over = Vec::new();
        for (one, left) in asked {
            let one = Asked { left, ..one };
            held.note(&one, &told);
            let one = Asked {
                is_handed: false,
                ..one
            };
            if !held.may_wait(one.until) {
                over.push(one);
            } else if since.take(&one.claim, left) {
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
            is_new: true,
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
        Asked::new(claim, message)
    }

    fn ids(asked: &[Asked]) -> Vec<DispatchId> {
        asked.iter().map(|one| one.claim.claim).collect()
    }

    /// One that believes for long what it saw.
    fn open() -> Waiting {
        let waiting = Waiting {
            believed: MAX_WAIT,
            ..Waiting::default()
        };
        waiting.open();
        waiting
    }

    /// Claims for which there was nothing, whatever was told before.
    fn keep(waiting: &Waiting, asked: Vec<Asked>, left: Left) -> Vec<Asked> {
        keep_since(waiting, asked, left, &waiting.told())
    }

    fn keep_since(waiting: &Waiting, asked: Vec<Asked>, left: Left, before: &Told) -> Vec<Asked> {
        waiting.keep(asked.into_iter().map(|one| (one, left)).collect(), before)
    }

    fn parks(waiting: &Waiting, pools: &[&str]) -> bool {
        waiting.park(asked(pools, 1_000)).is_none()
    }

    #[test]
    fn who_waits_longest_in_a_pool_is_handed_its_work() {
        let waiting = open();
        let all: Vec<_> = [&["a"][..], &["b"], &["a", "b"], &["b"]]
            .map(|pools| asked(pools, 1_000))
            .into();
        let id = ids(&all);
        assert!(keep(&waiting, all, Left::Nothing).is_empty());
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
        assert!(keep_since(&waiting, all, Left::Nothing, &before).is_empty());
        assert_eq!(ids(&waiting.take_due(9)), [id[1]]);
        assert!(!waiting.is_empty());
        // Nor by who comes now.
        assert!(!parks(&waiting, &["a"]));
    }

    #[test]
    fn who_found_no_room_looks_again_when_dispatches_end() {
        let waiting = open();
        let before = waiting.told();
        let all: Vec<_> = [(); 3].map(|()| asked(&["a"], 1_000)).into();
        let id = ids(&all);
        let nothing = asked(&["a"], 1_000);
        assert!(keep(&waiting, vec![nothing], Left::Nothing).is_empty());
        assert!(keep(&waiting, all, Left::NoRoom).is_empty());
        waiting.ended(2);
        assert_eq!(ids(&waiting.take_due(9)), id[..2]);
        waiting.ended(4);
        assert_eq!(ids(&waiting.take_due(9)), id[2..]);
        // Three of these ended while the next ones looked.
        let late: Vec<_> = [(); 4].map(|()| asked(&["a"], 1_000)).into();
        let id = ids(&late);
        assert!(keep_since(&waiting, late, Left::NoRoom, &before).is_empty());
        assert_eq!(ids(&waiting.take_due(9)), id[..3]);
        assert_eq!(waiting.close().len(), 2);
    }

    #[test]
    fn a_new_claim_waits_without_a_look_where_there_was_nothing() {
        let waiting = open();
        assert!(!parks(&waiting, &["a"]));
        let other = asked(&["a"], 1_000);
        let incarnation = other.claim.incarnation;
        let like = |wait_ms: u64, is_new: bool| {
            let mut one = asked(&["a"], wait_ms);
            one.claim.incarnation = incarnation;
            one.claim.is_new = is_new;
            one
        };
        keep(&waiting, vec![like(0, true)], Left::NoRoom);
        assert!(waiting.park(like(1_000, true)).is_some());
        keep(&waiting, vec![other], Left::Nothing);
        // It may have been answered; it wants an answer at once; another life; another offer.
        assert!(waiting.park(like(1_000, false)).is_some());
        assert!(waiting.park(like(0, true)).is_some());
        assert!(!parks(&waiting, &["a"]));
        let mut more = like(1_000, true);
        more.claim.pools.push("b".to_owned());
        assert!(waiting.park(more).is_some());
        assert!(waiting.park(like(1_000, true)).is_none());
        // What somebody is handed is there for nobody else, what is told to nobody is.
        assert_eq!(waiting.tell("a", 1), 1);
        assert!(waiting.park(like(1_000, true)).is_none());
        assert_eq!(waiting.tell("a", 3), 2);
        assert!(waiting.park(like(1_000, true)).is_some());
    }

    #[test]
    fn what_was_handed_to_who_can_not_start_it_is_looked_for_by_the_next() {
        let waiting = open();
        let (one, other) = (asked(&["a"], 1_000), asked(&["a"], 1_000));
        let mut of_others = asked(&["a"], 1_000);
        of_others.claim.worker = "other".to_owned();
        let mut next = asked(&["a"], 1_000);
        next.claim.worker = "other".to_owned();
        next.claim.incarnation = of_others.claim.incarnation;
        keep(&waiting, vec![one, other], Left::Nothing);
        keep(&waiting, vec![of_others], Left::Nothing);
        assert_eq!(waiting.tell("a", 1), 1);
        let handed = waiting.take_due(9);
        keep(&waiting, handed, Left::Nothing);
        assert!(waiting.park(next).is_some());
    }

    #[test]
    fn that_there_was_nothing_is_soon_forgotten() {
        let waiting = Waiting::default();
        waiting.open();
        let one = asked(&["a"], 1_000);
        let mut next = asked(&["a"], 1_000);
        next.claim.incarnation = one.claim.incarnation;
        keep(&waiting, vec![one], Left::Nothing);
        std::thread::sleep(BARREN);
        assert!(waiting.park(next).is_some());
    }

    #[test]
    fn nobody_waits_too_long_or_where_nobody_serves() {
        let waiting = open();
        let at_once = asked(&["a"], 0);
        let id = at_once.claim.claim;
        assert_eq!(ids(&keep(&waiting, vec![at_once], Left::Nothing)), [id]);
        keep(&waiting, vec![asked(&["a"], 1)], Left::Nothing);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(waiting.take_over().len(), 1);
        assert!(waiting.is_empty());
        waiting.close();
        let one = asked(&["a"], 1_000);
        assert_eq!(keep(&waiting, vec![one], Left::Nothing).len(), 1);
    }
}

//! A bounded queue of ended attempts and runs whose traces are not sent yet.

use std::collections::VecDeque;

use parking_lot::Mutex;
use ralph_shared::ids::{DispatchId, RunId};
use tokio::sync::Notify;

/// Most entries; beyond that the oldest are dropped.
const MAX_WAITING: usize = 100_000;
/// Most entries of each kind in a batch.
const BATCH: usize = 50;

/// Ended dispatches and runs, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedWork {
    pub dispatches: Vec<DispatchId>,
    pub runs: Vec<RunId>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    dispatches: VecDeque<DispatchId>,
    runs: VecDeque<RunId>,
    dropped: u64,
}

impl Queue {
    pub(super) fn push(&self, dispatches: Vec<DispatchId>, runs: Vec<RunId>) {
        if dispatches.is_empty() && runs.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        waiting.dispatches.extend(dispatches);
        waiting.runs.extend(runs);
        waiting.dropped += shorten(&mut waiting.dispatches) + shorten(&mut waiting.runs);
        self.news.notify_one();
    }

    pub(super) async fn next(&self) -> EndedWork {
        loop {
            {
                let waiting = self.waiting.lock();
                let ended = EndedWork {
                    dispatches: waiting.dispatches.iter().take(BATCH).copied().collect(),
                    runs: waiting.runs.iter().take(BATCH).copied().collect(),
                };
                if ended != EndedWork::default() {
                    return ended;
                }
            }
            self.news.notified().await;
        }
    }

    /// Removes sent entries, unless they were dropped meanwhile.
    pub(super) fn forget(&self, ended: &EndedWork) {
        let mut waiting = self.waiting.lock();
        remove_sent(&mut waiting.dispatches, &ended.dispatches);
        remove_sent(&mut waiting.runs, &ended.runs);
    }

    pub(super) fn dropped(&self) -> u64 {
        std::mem::take(&mut self.waiting.lock().dropped)
    }
}

fn remove_sent<T: PartialEq>(waiting: &mut VecDeque<T>, sent: &[T]) {
    let gone = waiting
        .iter()
        .take(sent.len())
        .filter(|id| sent.contains(id))
        .count();
    waiting.drain(..gone);
}

/// Drops the oldest surplus entries. Returns their number.
fn shorten<T>(waiting: &mut VecDeque<T>) -> u64 {
    let more = waiting.len().saturating_sub(MAX_WAITING);
    waiting.drain(..more);
    more as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn ended_work_stays_queued_until_it_is_forgotten() {
        let queue = Queue::default();
        let ids: Vec<DispatchId> = (0..BATCH + 1).map(|_| DispatchId::new()).collect();
        queue.push(ids.clone(), vec![RunId::new()]);
        let first = queue.next().await;
        assert_eq!((first.dispatches.len(), first.runs.len()), (BATCH, 1));
        assert_eq!(queue.next().await, first);
        queue.forget(&first);
        assert_eq!(queue.next().await.dispatches, [*ids.last().unwrap()]);
    }

    #[tokio::test]
    async fn a_full_queue_drops_and_counts_its_oldest_entries() {
        let queue = Queue::default();
        let ids: Vec<DispatchId> = (0..MAX_WAITING + 3).map(|_| DispatchId::new()).collect();
        queue.push(ids[..2].to_vec(), Vec::new());
        let sent = queue.next().await;
        queue.push(ids[2..].to_vec(), Vec::new());
        assert_eq!((queue.dropped(), queue.dropped()), (3, 0));
        // The sent entries were dropped meanwhile, so no others are removed.
        queue.forget(&sent);
        assert_eq!(queue.next().await.dispatches[0], ids[3]);
    }
}

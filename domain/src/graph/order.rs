//! An order in which every task can be done, or the cycles that forbid one (SPEC 2.5).
//!
//! Blockers and parents work together: a task starts after its own blockers and those of its ancestors, and a
//! parent is done when its children are (SPEC 2.3, 2.4). So each task is two events, its start and its end:
//!
//! ```text
//! start(task) needs start(parent), end(blocker) for each blocker
//! end(task)   needs start(task),   end(child)   for each child
//! ```
//!
//! All tasks can be done if, and only if, these needs have no cycle. This holds for any tasks with parents
//! and blockers, those of a stored feature too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cycle;
use super::rows::Rows;

pub use super::cycle::{Cycle, CycleKind, Step};

/// All tasks, each after its parent, its blockers and theirs, and otherwise by index.
///
/// `parents[t]` and `after[t]` are the parent and the blockers of task `t`, as indexes into the same slices.
/// Both slices have the same length.
///
/// # Errors
/// Cycles without a common task, at most 20. Each is a shortest cycle through its first task.
pub fn order(parents: &[Option<u32>], after: &[Vec<u32>]) -> Result<Vec<u32>, Vec<Cycle>> {
    let links = Relations { parents, after };
    let mut waits = Waits::new(links);
    let mut ready: BinaryHeap<_> = (0..links.tasks())
        .filter(|task| waits.is_free(start(*task)))
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(parents.len());
    while let Some(Reverse(task)) = ready.pop() {
        order.push(task);
        waits.happen(start(task), |freed| ready.push(Reverse(freed)));
    }
    if order.len() == parents.len() {
        Ok(order)
    } else {
        Err(cycle::find(links, waits))
    }
}

/// A task's start or end: twice its index, and one more for the end.
pub(super) type Event = u32;

pub(super) const fn start(task: u32) -> Event {
    2 * task
}

pub(super) const fn end(task: u32) -> Event {
    2 * task + 1
}

pub(super) const fn task_of(event: Event) -> u32 {
    event / 2
}

pub(super) const fn is_start(event: Event) -> bool {
    event.is_multiple_of(2)
}

/// The tasks of a graph by index.
#[derive(Clone, Copy)]
pub(super) struct Relations<'g> {
    pub parents: &'g [Option<u32>],
    pub after: &'g [Vec<u32>],
}

impl Relations<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "parents and blockers are u32, so are all indexes"
    )]
    pub fn tasks(self) -> u32 {
        self.parents.len() as u32
    }

    fn each_need(self, mut need: impl FnMut(Event, Event)) {
        for task in 0..self.tasks() {
            need(end(task), start(task));
            if let Some(parent) = self.parents[task as usize] {
                need(start(task), start(parent));
                need(end(parent), end(task));
            }
            for blocker in &self.after[task as usize] {
                need(start(task), end(*blocker));
            }
        }
    }
}

/// The waiting events, with the number of events that each waits for.
pub(super) struct Waits {
    needed_by: Rows,
    open_needs: Vec<u32>,
    happened: Vec<bool>,
}

impl Waits {
    fn new(links: Relations<'_>) -> Self {
        let events = 2 * links.parents.len();
        let mut open_needs = vec![0; events];
        links.each_need(|event, _| open_needs[event as usize] += 1);
        Self {
            needed_by: Rows::new(events, |pair| {
                links.each_need(|event, needed| pair(needed, event))
            }),
            open_needs,
            happened: vec![false; events],
        }
    }

    fn is_free(&self, event: Event) -> bool {
        self.open_needs[event as usize] == 0
    }

    pub fn has_happened(&self, event: Event) -> bool {
        self.happened[event as usize]
    }

    /// Lets `event` happen, even with open needs, and then every end without open needs; reports the tasks
    /// that may start now.
    pub fn happen(&mut self, event: Event, mut freed: impl FnMut(u32)) {
        let mut happening = vec![event];
        while let Some(event) = happening.pop() {
            self.happened[event as usize] = true;
            for dependent in self.needed_by.row(event) {
                let open = &mut self.open_needs[*dependent as usize];
                *open -= 1;
                if *open > 0 || self.happened[*dependent as usize] {
                    continue;
                }
                if is_start(*dependent) {
                    freed(task_of(*dependent));
                } else {
                    happening.push(*dependent);
                }
            }
        }
    }
}

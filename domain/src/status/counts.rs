//! Counts of a feature's tasks by state. A task in progress counts as pending, since claims move tasks
//! between the two without the feature's lock.

use crate::states::TaskState;

/// Tasks by state, with `in_progress` counted as `pending`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([i32; 8]);

impl Counts {
    pub fn of(&self, state: TaskState) -> i32 {
        self.0[index(state)]
    }

    pub fn add(&mut self, state: TaskState, n: i32) {
        self.0[index(state)] += n;
    }

    /// Moves one task from a state to another.
    pub fn moved(&mut self, from: TaskState, to: TaskState) {
        self.add(from, -1);
        self.add(to, 1);
    }

    pub fn total(&self) -> i32 {
        self.0.iter().sum()
    }

    /// Tasks that may still change without a person.
    pub fn open(&self) -> i32 {
        self.of(TaskState::Pending) + self.of(TaskState::Blocked)
    }
}

fn index(state: TaskState) -> usize {
    if state == TaskState::InProgress {
        TaskState::Pending as usize
    } else {
        state as usize
    }
}

//! Detects a worker on which everything fails: the worker is at fault then, and wastes its tasks.

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;

use crate::failure::{Counts, Failure};

/// Tasks in a row that fail because of the worker, after which it is drained.
pub const TASKS: usize = 3;

/// An ended session of a worker.
#[derive(Debug, Clone)]
pub struct EndedSession {
    pub task: TaskId,
    pub failure: Option<Failure>,
    /// Whether its agent called no tool.
    pub before_work: bool,
    /// Whether another worker finished the task since.
    pub done_elsewhere: bool,
}

/// The tasks that failed because of the worker, if all recent ones did; `newest_first` are its sessions.
pub fn fails(newest_first: &[EndedSession]) -> Option<BTreeSet<TaskId>> {
    let says_nothing = |one: &&EndedSession| {
        let counts = one.failure.map(|failure| failure.policy().counts);
        counts.is_some_and(|counts| counts != Counts::Failure && counts != Counts::Unfinished)
    };
    let is_the_workers = |one: &&EndedSession| {
        let policy = one.failure.map(Failure::policy);
        policy.is_some_and(|policy| one.done_elsewhere || policy.of_worker && one.before_work)
    };
    let tasks: BTreeSet<TaskId> = newest_first
        .iter()
        .filter(|one| !says_nothing(one))
        .take_while(is_the_workers)
        .map(|one| one.task)
        .collect();
    (tasks.len() >= TASKS).then_some(tasks)
}

/// Why the worker is drained, for people.
pub fn why(tasks: &BTreeSet<TaskId>, last: &str) -> String {
    let names: Vec<String> = tasks.iter().map(TaskId::short).collect();
    format!(
        "{} tasks in a row failed there before any work, or were done by another worker afterwards: {}. The last failure: {last}. \
         Repair that machine, then start the worker again",
        tasks.len(),
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_at_fault_is_distinguished_from_failing_tasks() {
        let ids: Vec<TaskId> = (0..4).map(|_| TaskId::new()).collect();
        let one = |task: usize, failure, before_work, done_elsewhere| EndedSession {
            task: ids[task],
            failure,
            before_work,
            done_elsewhere,
        };
        let broken = |task| one(task, Some(Failure::Workspace), true, false);
        let elsewhere = |task| one(task, Some(Failure::Reported), false, true);
        let check =
            |rows: &[EndedSession], expected: bool| assert_eq!(fails(rows).is_some(), expected, "{rows:?}");
        check(&[broken(0), broken(1), broken(2)], true);
        check(&[broken(0), elsewhere(1), elsewhere(2)], true);
        // A task that fails again and again may be at fault itself.
        check(&[broken(0), broken(0), broken(1), broken(0)], false);
        check(
            &[broken(0), broken(1), one(3, None, false, false), broken(2)],
            false,
        );
        check(
            &[broken(0), broken(1), one(2, Some(Failure::Reported), true, false)],
            false,
        );
        check(
            &[
                broken(0),
                broken(1),
                one(2, Some(Failure::Protocol), false, false),
            ],
            false,
        );
        // A session that a person ended, or an account, says nothing about the worker.
        let nothing = [Failure::Interrupted, Failure::Quota, Failure::AgentMissing]
            .map(|f| one(3, Some(f), true, false));
        let mut rows = vec![broken(0), broken(1)];
        rows.extend(nothing);
        check(&rows, false);
        rows.push(broken(2));
        check(&rows, true);
    }
}

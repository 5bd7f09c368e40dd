//! Chooses ready tasks that may start beside running ones.
//!
//! The tasks that wait longest keep their paths free: a later task of the same or less urgency does not start
//! on them. So running tasks there come to an end, and the waiting task gets its turn. Only earlier tasks
//! hold later ones, so there is no cycle of waiting tasks.

use std::collections::HashSet;

use ralph_shared::ids::TaskId;

use super::footprint::Footprint;

/// Most waiting tasks that keep their paths free.
pub const MAX_WAITING: usize = 16;

/// A task under way: in its session, in verification, or before its landing.
#[derive(Debug, Clone)]
pub struct Busy {
    pub task: TaskId,
    pub footprint: Footprint,
}

/// A task that was held before, and may still be held.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub task: TaskId,
    /// Lower is more urgent.
    pub priority: i32,
    pub footprint: Footprint,
}

#[derive(Debug, Clone)]
pub struct Candidate {
    pub task: TaskId,
    /// Lower is more urgent.
    pub priority: i32,
    pub footprint: Footprint,
    /// Whether it may always start: it is no work, or the rule for tasks that conflicted twice applies.
    pub exempt: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    Admitted,
    /// Another task changes the same path.
    Held {
        by: TaskId,
        /// The common path.
        path: String,
    },
}

/// Admits up to `room` of the candidates, best first, and says why others are passed over. Updates `busy` and
/// `waiting` (longest first) for further candidates of the same claim.
pub fn admit(
    room: usize,
    busy: &mut Vec<Busy>,
    waiting: &mut Vec<Waiting>,
    candidates: Vec<Candidate>,
) -> Vec<(TaskId, Admission)> {
    let under_way: HashSet<TaskId> = busy.iter().map(|one| one.task).collect();
    waiting.retain(|one| !under_way.contains(&one.task));
    let mut decided = Vec::new();
    let mut admitted = 0;
    for candidate in candidates {
        if admitted == room {
            break;
        }
        let Candidate {
            task,
            priority,
            footprint,
            exempt,
        } = candidate;
        let place = waiting.iter().position(|one| one.task == task);
        let held = if exempt || footprint.is_empty() {
            None
        } else {
            let earlier = waiting[..place.unwrap_or(waiting.len())]
                .iter()
                .filter(|one| one.priority <= priority)
                .map(|one| (one.task, &one.footprint));
            busy.iter()
                .map(|one| (one.task, &one.footprint))
                .chain(earlier)
                .find_map(|(by, theirs)| theirs.common(&footprint).map(|path| (by, path.to_owned())))
        };
        if let Some((by, path)) = held {
            if place.is_none() && waiting.len() < MAX_WAITING {
                waiting.push(Waiting {
                    task,
                    priority,
                    footprint,
                });
            }
            decided.push((task, Admission::Held { by, path }));
        } else {
            if let Some(place) = place {
                waiting.remove(place);
            }
            busy.push(Busy { task, footprint });
            admitted += 1;
            decided.push((task, Admission::Admitted));
        }
    }
    decided
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> TaskId {
        TaskId(uuid::Uuid::from_u128(n))
    }

    fn on(paths: &[&str]) -> Footprint {
        let declared: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        Footprint::new(&declared, [])
    }

    fn candidate(n: u128, priority: i32, paths: &[&str]) -> Candidate {
        Candidate {
            task: id(n),
            priority,
            footprint: on(paths),
            exempt: false,
        }
    }

    fn held(by: u128, path: &str) -> Admission {
        Admission::Held {
            by: id(by),
            path: path.to_owned(),
        }
    }

    #[test]
    fn only_one_task_on_a_path_starts() {
        let all = vec![
            candidate(1, 0, &["src/a.rs"]),
            candidate(2, 0, &["src/"]),
            candidate(3, 0, &["docs/"]),
            candidate(4, 0, &[]),
            candidate(5, 0, &[]),
        ];
        let decided = admit(3, &mut Vec::new(), &mut Vec::new(), all);
        let expected = [
            (id(1), Admission::Admitted),
            (id(2), held(1, "src/a.rs")),
            (id(3), Admission::Admitted),
            (id(4), Admission::Admitted),
        ];
        assert_eq!(decided, expected);
    }

    #[test]
    fn the_longest_waiting_task_keeps_its_paths_free() {
        let mut busy = vec![Busy {
            task: id(9),
            footprint: on(&["a.rs"]),
        }];
        let mut waiting = vec![Waiting {
            task: id(1),
            priority: 0,
            footprint: on(&["a.rs", "b.rs"]),
        }];
        let all = vec![
            candidate(2, 0, &["b.rs"]),
            candidate(3, -1, &["b.rs"]),
            candidate(4, 0, &["c.rs"]),
        ];
        let decided = admit(8, &mut busy, &mut waiting, all);
        let expected = [
            (id(2), held(1, "b.rs")),
            (id(3), Admission::Admitted),
            (id(4), Admission::Admitted),
        ];
        assert_eq!(decided, expected);
        // When both are over it gets its turn, before the later one.
        let mut busy = Vec::new();
        let again = vec![candidate(2, 0, &["b.rs"]), candidate(1, 0, &["a.rs", "b.rs"])];
        let decided = admit(8, &mut busy, &mut waiting, again);
        assert_eq!(decided, [(id(2), held(1, "b.rs")), (id(1), Admission::Admitted)]);
    }

    #[test]
    fn exempt_tasks_always_start_and_hold_others() {
        let first = Candidate {
            exempt: true,
            ..candidate(1, 0, &["a.rs"])
        };
        let mut busy = vec![Busy {
            task: id(9),
            footprint: on(&["a.rs"]),
        }];
        let decided = admit(
            8,
            &mut busy,
            &mut Vec::new(),
            vec![first, candidate(2, 0, &["a.rs"])],
        );
        assert_eq!(decided, [(id(1), Admission::Admitted), (id(2), held(9, "a.rs"))]);
    }
}

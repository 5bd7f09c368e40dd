//! Finds the cycles of a graph, and describes them.

use std::collections::VecDeque;
use std::fmt::Write;

use super::limits::MAX_PROBLEMS;
use super::order::{Event, Relations, Waits, end, is_start, start, task_of};
use super::rows::Rows;

/// Shown links of a long cycle.
const SHOWN_STEPS: usize = 12;

/// Tasks that wait for each other. Each step leads to the task of the next one, the last to the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Never empty. The first step is the blocker step with the lowest task; without a blocker, the step with
    /// the lowest task.
    pub steps: Vec<Step>,
}

/// Why a task waits for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The task starts after a blocker.
    Blocker { task: u32, blocker: u32 },
    /// The task starts when its parent may, as the blockers of ancestors hold it too.
    Parent { task: u32, parent: u32 },
    /// The task is done when its children are.
    Child { task: u32, child: u32 },
}

/// The links that form a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleKind {
    /// Parents only: a task is its own ancestor.
    Parents,
    /// One blocker that is the task itself, its ancestor or its descendant.
    Kin,
    /// Two blockers or more.
    Blockers,
}

impl Step {
    /// The waiting task.
    pub fn task(self) -> u32 {
        match self {
            Self::Blocker { task, .. } | Self::Parent { task, .. } | Self::Child { task, .. } => task,
        }
    }

    fn is_blocker(self) -> bool {
        matches!(self, Self::Blocker { .. })
    }

    fn describe(self, name: &impl Fn(u32) -> String) -> String {
        match self {
            Self::Blocker { task, blocker } => format!("{} starts after {}", name(task), name(blocker)),
            Self::Parent { task, parent } => {
                format!("{} starts when its parent {} may", name(task), name(parent))
            }
            Self::Child { task, child } => {
                format!("{} is done when its child {} is", name(task), name(child))
            }
        }
    }
}

impl Cycle {
    pub fn kind(&self) -> CycleKind {
        match self.steps.iter().filter(|step| step.is_blocker()).count() {
            0 => CycleKind::Parents,
            1 => CycleKind::Kin,
            _ => CycleKind::Blockers,
        }
    }

    /// The problem, with a line for each step and both of its tasks (`name`), and the remedy.
    pub fn describe(&self, indent: &str, name: impl Fn(u32) -> String) -> String {
        let mut text = match self.kind() {
            CycleKind::Parents => "it is its own ancestor:",
            CycleKind::Kin => "a task can't wait for its own ancestor or descendant:",
            CycleKind::Blockers => "it would wait for itself, in a circle:",
        }
        .to_owned();
        let left_out = self.steps.len().saturating_sub(SHOWN_STEPS);
        for (n, step) in self.steps.iter().enumerate() {
            if left_out > 0 && n == SHOWN_STEPS - 1 {
                let _ = write!(text, "\n{indent}… {left_out} more …");
            }
            if n < SHOWN_STEPS - 1 || n + 1 == self.steps.len() {
                let _ = write!(text, "\n{indent}{}", step.describe(&name));
            }
        }
        let _ = match self.kind() {
            CycleKind::Parents => write!(text, "\n{indent}change one `parent`"),
            CycleKind::Kin => write!(text, "\n{indent}remove that blocker"),
            CycleKind::Blockers => write!(
                text,
                "\n{indent}remove one of these blockers, or move a task elsewhere"
            ),
        };
        text
    }
}

/// The cycles among the events of `waits` that could not happen; there is at least one.
pub(super) fn find(links: Relations<'_>, mut waits: Waits) -> Vec<Cycle> {
    let events = 2 * links.tasks();
    let mut search = Search {
        links,
        children: Rows::children(links.parents),
        seen: vec![0; events as usize],
        reached_from: vec![0; events as usize],
        pass: 0,
    };
    let mut cycles = Vec::new();
    for event in 0..events {
        if waits.has_happened(event) {
            continue;
        }
        if cycles.len() == MAX_PROBLEMS {
            break;
        }
        let on_circle = search.follow(event, &waits);
        let circle = search.shortest(on_circle, &waits);
        cycles.push(Cycle {
            steps: steps(&circle),
        });
        let mut free: Vec<u32> = Vec::new();
        for event in circle
            .iter()
            .flat_map(|event| [start(task_of(*event)), end(task_of(*event))])
        {
            if !waits.has_happened(event) {
                waits.happen(event, |task| free.push(task));
            }
        }
        while let Some(task) = free.pop() {
            if !waits.has_happened(start(task)) {
                waits.happen(start(task), |task| free.push(task));
            }
        }
    }
    cycles
}

struct Search<'g> {
    links: Relations<'g>,
    children: Rows,
    /// The pass that saw an event last.
    seen: Vec<u32>,
    reached_from: Vec<Event>,
    pass: u32,
}

impl Search<'_> {
    /// Open needs of `event`. An event that has not happened always has one.
    fn open_needs(&self, event: Event, waits: &Waits) -> impl Iterator<Item = Event> {
        let task = task_of(event);
        let (first, blockers, children) = if is_start(event) {
            (
                self.links.parents[task as usize].map(start),
                &self.links.after[task as usize][..],
                &[][..],
            )
        } else {
            (Some(start(task)), &[][..], self.children.row(task))
        };
        let others = blockers.iter().chain(children).map(|other| end(*other));
        first
            .into_iter()
            .chain(others)
            .filter(|need| !waits.has_happened(*need))
    }

    /// Follows needs until one repeats: it is on a cycle.
    fn follow(&mut self, from: Event, waits: &Waits) -> Event {
        self.pass += 1;
        let mut event = from;
        while self.seen[event as usize] != self.pass {
            self.seen[event as usize] = self.pass;
            let next = self.open_needs(event, waits).next();
            event = next.unwrap_or(event);
        }
        event
    }

    /// A shortest cycle through `home`: each event needs the next, the last needs `home`, which is the first.
    fn shortest(&mut self, home: Event, waits: &Waits) -> Vec<Event> {
        self.pass += 1;
        let mut queue = VecDeque::from([home]);
        while let Some(event) = queue.pop_front() {
            let needs: Vec<Event> = self.open_needs(event, waits).collect();
            for need in needs {
                if need == home {
                    let mut circle = vec![event];
                    while circle[circle.len() - 1] != home {
                        circle.push(self.reached_from[circle[circle.len() - 1] as usize]);
                    }
                    circle.reverse();
                    return circle;
                }
                if self.seen[need as usize] != self.pass {
                    self.seen[need as usize] = self.pass;
                    self.reached_from[need as usize] = event;
                    queue.push_back(need);
                }
            }
        }
        vec![home]
    }
}

/// The needs of a cycle as steps from task to task, from the start that [`Cycle::steps`] defines.
fn steps(circle: &[Event]) -> Vec<Step> {
    let nexts = circle.iter().cycle().skip(1);
    let mut steps: Vec<Step> = circle
        .iter()
        .zip(nexts)
        .filter_map(|(event, need)| {
            let (task, other) = (task_of(*event), task_of(*need));
            match (is_start(*event), is_start(*need)) {
                (true, false) => Some(Step::Blocker { task, blocker: other }),
                (true, true) => Some(Step::Parent { task, parent: other }),
                (false, false) => Some(Step::Child { task, child: other }),
                (false, true) => None,
            }
        })
        .collect();
    let first = steps
        .iter()
        .enumerate()
        .min_by_key(|(_, step)| (!step.is_blocker(), step.task()));
    let first = first.map_or(0, |(n, _)| n);
    steps.rotate_left(first);
    steps
}

//! Keys → indexes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::file::{Located, TaskEntry};
use super::nearest::did_you_mean;
use super::printable::quote;
use super::problem::{ProblemKind, Problems};

/// The references of the tasks, as indexes into the file.
pub struct References {
    pub parents: Vec<Option<u32>>,
    /// Each blocker once.
    pub after: Vec<Vec<u32>>,
    /// Total number of blockers.
    pub edges: usize,
}

/// Resolves every `after` and `parent`. An unknown key, or the task's own key, is a problem and is left out.
pub fn resolve(tasks: &[TaskEntry], problems: &mut Problems) -> References {
    let index_of = index(tasks, problems);
    let mut references = References {
        parents: Vec::new(),
        after: Vec::new(),
        edges: 0,
    };
    // The last task that named each blocker, so that a repeated one counts once.
    let mut named_by = vec![u32::MAX; tasks.len()];
    for (index, task) in (0..).zip(tasks) {
        let mut find = |field: &str, name: &Located<String>, to_itself: &str| match index_of.get(&*name.value)
        {
            Some(found) if *found == index => {
                problems.push(name.line, Some(&task.key.value), ProblemKind::SelfEdge, || {
                    to_itself.to_owned()
                });
                None
            }
            Some(found) => Some(*found),
            None => {
                problems.push(name.line, Some(&task.key.value), ProblemKind::UnknownKey, || {
                    let others = tasks
                        .iter()
                        .map(|other| &*other.key.value)
                        .filter(|other| *other != task.key.value);
                    let mut near = did_you_mean(&name.value, others);
                    if near.is_empty() {
                        near = "; add that task or remove the name".to_owned();
                    }
                    format!("`{field}` names the unknown key {}{near}", quote(&name.value))
                });
                None
            }
        };
        let parent = task.parent.as_ref();
        let parent = parent.and_then(|name| find("parent", name, "it is its own parent; remove `parent`"));
        let mut after = Vec::new();
        for name in &task.after {
            if let Some(blocker) = find("after", name, "it waits for itself; remove its key from `after`")
                && std::mem::replace(&mut named_by[blocker as usize], index) != index
            {
                after.push(blocker);
            }
        }
        references.edges += after.len();
        references.parents.push(parent);
        references.after.push(after);
    }
    references
}

fn index<'t>(tasks: &'t [TaskEntry], problems: &mut Problems) -> HashMap<&'t str, u32> {
    let mut index_of = HashMap::with_capacity(tasks.len());
    for (index, task) in (0..).zip(tasks) {
        if task.key.value.is_empty() {
            continue;
        }
        match index_of.entry(task.key.value.as_str()) {
            Entry::Vacant(free) => {
                free.insert(index);
            }
            Entry::Occupied(taken) => {
                let first = tasks[*taken.get() as usize].key.line;
                problems.push(
                    task.key.line,
                    Some(&task.key.value),
                    ProblemKind::DoubleKey,
                    || match first {
                        0 => "another task has the same key; rename one of them".to_owned(),
                        line => format!("the task on line {line} has the same key; rename one of them"),
                    },
                );
            }
        }
    }
    index_of
}

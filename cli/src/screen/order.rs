//! Orders tasks as a tree: parts come below the task that was split.

use std::collections::HashMap;

use ralph_api::view::TaskView;

/// Orders tasks as a tree, and returns their depths. Tasks without their parent in the list have depth 0.
pub fn by_tree(tasks: Vec<TaskView>) -> (Vec<TaskView>, Vec<usize>) {
    let index: HashMap<String, usize> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| (task.id.clone(), at))
        .collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    // A stack of the next tasks, the first on top.
    let mut pile: Vec<(usize, usize)> = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        match task.parent.as_ref().and_then(|parent| index.get(parent)) {
            Some(&parent) => children[parent].push(at),
            None => pile.push((at, 0)),
        }
    }
    pile.reverse();
    let mut tasks: Vec<Option<TaskView>> = tasks.into_iter().map(Some).collect();
    let (mut ordered, mut depths) = (Vec::with_capacity(tasks.len()), Vec::with_capacity(tasks.len()));
    while let Some((at, depth)) = pile.pop() {
        if let Some(task) = tasks[at].take() {
            ordered.push(task);
            depths.push(depth);
        }
        pile.extend(children[at].iter().rev().map(|&child| (child, depth + 1)));
    }
    (ordered, depths)
}

/// The first tasks of a feature with those that need attention, each once.
pub fn joined(first: Vec<TaskView>, wanted: Vec<TaskView>) -> Vec<TaskView> {
    let known: std::collections::HashSet<String> = first.iter().map(|task| task.id.clone()).collect();
    let more = wanted.into_iter().filter(|task| !known.contains(&task.id));
    let more: Vec<TaskView> = more.collect();
    first.into_iter().chain(more).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::state::tests::example;
    use super::*;

    #[test]
    fn parts_follow_their_parent_and_no_task_appears_twice() {
        let task = |id: &str, parent: Option<&str>| TaskView {
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            ..example().tasks[0].clone()
        };
        let first = vec![task("a", None), task("b", None), task("c", Some("a"))];
        let wanted = vec![
            task("c", Some("a")),
            task("d", Some("c")),
            task("e", Some("gone")),
        ];
        let (tasks, depths) = by_tree(joined(first, wanted));
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["a", "c", "d", "b", "e"]);
        assert_eq!(depths, [0, 1, 2, 0, 0]);
    }
}

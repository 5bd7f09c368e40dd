//! Draws a tree of tasks, with their dependencies.

use std::collections::HashMap;

use ralph_api::view::TaskView;
use ralph_shared::terminal::{Paint, Tone, tame};

use crate::task::page::waits;
use crate::terminal::color::{mark_of, tone_of};

/// Draws tasks below their parents; tasks without their parent in the list are roots. At most `limit` lines,
/// and one for the rest.
pub fn draw(tasks: &[TaskView], limit: usize) -> String {
    if tasks.is_empty() {
        return "no tasks\n".to_owned();
    }
    let index: HashMap<&str, usize> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| (task.id.as_str(), at))
        .collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    let mut roots = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        match task.parent.as_deref().and_then(|parent| index.get(parent)) {
            Some(&parent) => children[parent].push(at),
            None => roots.push(at),
        }
    }
    let paint = Paint::stdout();
    let mut text = String::new();
    let mut lines = 0;
    // Depth first without recursion: a tree may have any depth.
    let mut stack: Vec<(usize, String, bool)> = roots
        .iter()
        .rev()
        .map(|&root| (root, String::new(), false))
        .collect();
    while let Some((at, indent, is_last)) = stack.pop() {
        if lines == limit {
            text.push_str(&format!("… and {} more\n", tasks.len() - lines));
            break;
        }
        lines += 1;
        let task = &tasks[at];
        let is_root = task
            .parent
            .as_deref()
            .is_none_or(|parent| !index.contains_key(parent));
        let branch = match (is_root, is_last) {
            (true, _) => "",
            (false, true) => "└─ ",
            (false, false) => "├─ ",
        };
        text.push_str(&format!(
            "{}{}\n",
            paint.apply(Tone::Dim, &format!("{indent}{branch}")),
            line(task, paint)
        ));
        let below = match (is_root, is_last) {
            (true, _) => indent,
            (false, true) => format!("{indent}   "),
            (false, false) => format!("{indent}│  "),
        };
        let last = children[at].last().copied();
        for &child in children[at].iter().rev() {
            stack.push((child, below.clone(), Some(child) == last));
        }
    }
    text
}

fn line(task: &TaskView, paint: Paint) -> String {
    let status = task.status.into_str();
    let mark = mark_of(status);
    let mut line = format!(
        "{} {} {} {}  {}",
        paint.apply(tone_of(status), mark),
        task.key,
        paint.apply(tone_of(status), status),
        tame(&task.title).replace('\n', " "),
        paint.apply(Tone::Dim, &task.id)
    );
    if !task.after.is_empty() {
        let edges = format!("  ← {}", task.after.join(", "));
        line.push_str(&paint.apply(Tone::Dim, &edges));
    }
    if let Some(session) = &task.session {
        line.push_str(&paint.apply(
            Tone::Active,
            &format!("  [{} on {}]", session.kind, session.worker),
        ));
    } else if task.attempt > 1 {
        line.push_str(&paint.apply(Tone::Dim, &format!("  ({} attempts)", task.attempt)));
    }
    if let Some(waits) = waits(task) {
        line.push_str(&paint.apply(Tone::Dim, &format!("  [{waits}]")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_domain::states::{TaskState, Verification};

    fn task(id: &str, parent: Option<&str>) -> TaskView {
        TaskView {
            id: id.to_owned(),
            feature: "f-1".to_owned(),
            feature_name: "f".to_owned(),
            after: Vec::new(),
            parent: parent.map(str::to_owned),
            key: id.to_owned(),
            title: format!("Title of {id}"),
            status: TaskState::Pending,
            reason: None,
            priority: 0,
            pool: "default".to_owned(),
            agent: None,
            model: None,
            max_retries: 3,
            verify: true,
            verification_status: Verification::None,
            attempt: 0,
            failures: 0,
            open_blockers: 0,
            children: 0,
            held: false,
            held_by: None,
            concurrency: None,
            waits: None,
            waits_until: None,
            queue: None,
            paths: Vec::new(),
            session: None,
        }
    }

    #[test]
    fn children_are_drawn_below_their_parents() {
        let tasks = [
            task("a", None),
            task("b", Some("a")),
            task("c", Some("a")),
            task("d", Some("b")),
            task("e", Some("elsewhere")),
        ];
        let mut tasks = tasks;
        tasks[2].after = vec!["b".to_owned(), "e".to_owned()];
        let expected = "· a pending Title of a  a
├─ · b pending Title of b  b
│  └─ · d pending Title of d  d
└─ · c pending Title of c  c  ← b, e
· e pending Title of e  e
";
        assert_eq!(draw(&tasks, 10), expected);
        assert!(draw(&tasks, 2).ends_with("… and 3 more\n"));
    }
}

//! Draws a graph for `--dry-run`.

use std::fmt::Write;

use super::node::{Graph, Node};
use super::printable::clip;
use super::rows::Rows;
use super::waves::Waves;

/// Most drawn tasks; the others are counted.
const MAX_DRAWN: usize = 100;
/// Most blockers in the line of a task.
const MAX_NAMED: usize = 4;

/// The tree of tasks with their blockers, in little more than 100 lines, without a line end after the last.
///
/// The number before a task is its wave. Tasks of wave 1 can start at once, tasks of wave 2 once their
/// blockers in wave 1 are done, and so on. A parent has no number, since no session works on it.
pub fn draw(graph: &Graph) -> String {
    let nodes = &graph.nodes;
    let waves = Waves::of(graph);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {}, {}, {}; {} can start at once, at most {} run side by side",
        clip(&graph.source_name, 200),
        count(nodes.len(), "task"),
        count(graph.edges, "blocker"),
        count(waves.widths.len(), "wave"),
        waves.first(),
        waves.widest(),
    );

    let parents: Vec<Option<u32>> = nodes.iter().map(|node| node.parent).collect();
    let children = Rows::children(&parents);
    let number_width = waves.widths.len().to_string().len().max(2);
    let roots: Vec<u32> = (0..)
        .zip(nodes)
        .filter(|(_, node)| node.parent.is_none())
        .map(|(root, _)| root)
        .collect();
    // The remaining siblings at each level, from the roots down to the next task.
    let mut path = vec![roots.iter()];
    let mut drawn = 0;
    while let Some(level) = path.last_mut() {
        let Some(index) = level.next() else {
            path.pop();
            continue;
        };
        if drawn == MAX_DRAWN {
            let _ = write!(text, "… and {} more", group(nodes.len() - drawn));
            return text;
        }
        drawn += 1;
        let node = &nodes[*index as usize];
        let wave = match node.open_children {
            0 => waves.of_task[*index as usize].to_string(),
            _ => String::new(),
        };
        let _ = write!(text, "{wave:>number_width$}  ");
        if let Some((own, above)) = path[1..].split_last() {
            above
                .iter()
                .for_each(|level| text.push_str(if level.len() > 0 { "│  " } else { "   " }));
            text.push_str(if own.len() > 0 { "├─ " } else { "└─ " });
        }
        line(node, nodes, &mut text);
        path.push(children.row(*index).iter());
    }
    text.truncate(text.trim_end().len());
    text
}

fn line(node: &Node, nodes: &[Node], text: &mut String) {
    let _ = write!(text, "{}: {}", node.key, clip(&node.title, 70));
    if !node.after.is_empty() {
        let named: Vec<_> = node
            .after
            .iter()
            .take(MAX_NAMED)
            .map(|blocker| &*nodes[*blocker as usize].key)
            .collect();
        let _ = write!(text, "  ← {}", named.join(", "));
        if node.after.len() > MAX_NAMED {
            let _ = write!(text, " and {} more", group(node.after.len() - MAX_NAMED));
        }
    }
    let mut asks = Vec::new();
    if node.priority != 0 {
        asks.push(format!("priority {}", node.priority));
    }
    for (field, value) in [
        ("pool", &node.pool),
        ("agent", &node.agent),
        ("model", &node.model),
    ] {
        asks.extend(value.iter().map(|value| format!("{field} {}", clip(value, 40))));
    }
    asks.extend(node.max_retries.map(|retries| count(retries as usize, "retry")));
    match node.verify {
        Some(true) => asks.push("verified".to_owned()),
        Some(false) => asks.push("not verified".to_owned()),
        None => {}
    }
    asks.extend(
        node.concurrency
            .as_ref()
            .map(|of| format!("{} at once with key {}", of.limit, of.key)),
    );
    asks.extend(node.not_before.map(|at| format!("not before {at}")));
    if !node.paths.is_empty() {
        asks.push(format!("changes {}", clip(&node.paths.join(", "), 60)));
    }
    if !asks.is_empty() {
        let _ = write!(text, "  [{}]", asks.join(", "));
    }
    text.push('\n');
}

fn count(n: usize, noun: &str) -> String {
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{} {stem}ies", group(n)),
        (_, None) => format!("{} {noun}s", group(n)),
    }
}

/// `1234567` as `1,234,567`.
fn group(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

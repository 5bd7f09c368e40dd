//! Checks the whole graph: returns a [`Graph`], or every reason against it.

use super::cycle::Cycle;
use super::fields::{self, moment};
use super::file::{GraphFile, TaskEntry};
use super::limits::Limits;
use super::node::{Graph, Node};
use super::order::order;
use super::printable::{clip, quote};
use super::problem::{GraphErrors, ProblemKind, Problems};
use super::read::read;
use super::resolve::{References, resolve};

/// Parses and checks a task graph: [`super::parse`] and [`validate`], with the problems of both.
///
/// # Errors
/// All problems of the graph; any of them refuses the whole graph.
pub fn load(source_name: &str, text: &str, limits: &Limits) -> Result<Graph, GraphErrors> {
    let mut problems = Problems::default();
    let graph = read(source_name, text, &mut problems).and_then(|file| check(file, limits, &mut problems));
    finish(source_name, graph, problems)
}

/// Checks a parsed graph.
///
/// # Errors
/// All problems of the graph; any of them refuses the whole graph.
pub fn validate(file: GraphFile, limits: &Limits) -> Result<Graph, GraphErrors> {
    let mut problems = Problems::default();
    let source_name = file.source_name.clone();
    let graph = check(file, limits, &mut problems);
    finish(&source_name, graph, problems)
}

fn finish(source_name: &str, graph: Option<Graph>, problems: Problems) -> Result<Graph, GraphErrors> {
    match graph {
        Some(graph) if problems.is_empty() => Ok(graph),
        _ => Err(problems.into_errors(source_name)),
    }
}

/// The graph, unless a problem prevents one. With a problem, the warnings are reported as well: a missing
/// field may exist under a wrong name.
fn check(file: GraphFile, limits: &Limits, problems: &mut Problems) -> Option<Graph> {
    let ignored = file.warnings.clone();
    let graph = check_tasks(file, limits, problems);
    if !problems.is_empty() {
        problems.extend(ignored);
    }
    graph
}

fn check_tasks(file: GraphFile, limits: &Limits, problems: &mut Problems) -> Option<Graph> {
    if file.tasks.is_empty() && problems.is_empty() {
        problems.push(0, None, ProblemKind::Empty, || {
            "it has no tasks; write at least one, with `key` and `title`".into()
        });
    }
    at_most(limits.tasks, file.tasks.len(), "tasks", problems);
    for task in &file.tasks {
        fields::check(task, limits, problems);
    }
    let References {
        parents,
        after,
        edges,
    } = resolve(&file.tasks, problems);
    at_most(limits.edges, edges, "blockers", problems);
    let order = match order(&parents, &after) {
        Ok(order) => order,
        Err(cycles) => {
            cycles
                .iter()
                .for_each(|cycle| refuse_cycle(cycle, &file.tasks, problems));
            return None;
        }
    };
    let nodes = nodes(file.tasks, &parents, after, &order);
    check_tree(&nodes, limits, problems);
    Some(Graph {
        nodes,
        edges,
        warnings: file.warnings,
        source_name: file.source_name,
    })
}

fn at_most(limit: usize, count: usize, of_what: &str, problems: &mut Problems) {
    if count > limit {
        problems.push(0, None, ProblemKind::Limit, || {
            format!("it has {count} {of_what}, and {limit} are allowed; make it smaller")
        });
    }
}

fn refuse_cycle(cycle: &Cycle, tasks: &[TaskEntry], problems: &mut Problems) {
    let first = &tasks[cycle.steps[0].task() as usize].key;
    problems.push(first.line, Some(&first.value), ProblemKind::Cycle, || {
        cycle.describe("      ", |task| {
            let task = &tasks[task as usize];
            format!("{} ({})", quote(&task.key.value), clip(task.title.trim(), 60))
        })
    });
}

/// The tasks in their `order`, with counts of blockers and children.
fn nodes(
    tasks: Vec<TaskEntry>,
    parents: &[Option<u32>],
    mut after: Vec<Vec<u32>>,
    order: &[u32],
) -> Vec<Node> {
    let mut place = vec![0; tasks.len()];
    for (new, old) in (0..).zip(order) {
        place[*old as usize] = new;
    }
    let mut tasks: Vec<Option<TaskEntry>> = tasks.into_iter().map(Some).collect();
    let mut nodes: Vec<Node> = Vec::with_capacity(tasks.len());
    for old in order.iter().map(|old| *old as usize) {
        let Some(task) = tasks[old].take() else { continue };
        let parent = parents[old].map(|parent| place[parent as usize]);
        let mut after = std::mem::take(&mut after[old]);
        after
            .iter_mut()
            .for_each(|blocker| *blocker = place[*blocker as usize]);
        let mut depth = 0;
        let mut open_blockers = u32::try_from(after.len()).unwrap_or(u32::MAX);
        if let Some(parent) = parent {
            let parent = &mut nodes[parent as usize];
            parent.open_children += 1;
            depth = parent.depth + 1;
            open_blockers += u32::from(parent.open_blockers > 0);
        }
        nodes.push(Node {
            line: task.key.line,
            key: task.key.value,
            title: task.title.trim().to_owned(),
            description: task.description.unwrap_or_default(),
            parent,
            after,
            depth,
            priority: task.priority.unwrap_or_default(),
            pool: task.pool,
            agent: task.agent,
            model: task.model,
            max_retries: task.max_retries,
            verify: task.verify,
            paths: task.paths,
            concurrency: task.concurrency,
            not_before: task.not_before.as_deref().and_then(moment),
            open_blockers,
            open_children: 0,
        });
    }
    nodes
}

fn check_tree(nodes: &[Node], limits: &Limits, problems: &mut Problems) {
    let roots = nodes.iter().filter(|node| node.parent.is_none()).count();
    if roots > limits.children {
        problems.push(0, None, ProblemKind::Limit, || {
            format!(
                "it has {roots} tasks without a `parent`, and {} are allowed; group them",
                limits.children
            )
        });
    }
    for node in nodes {
        // Only the first level that is too deep is reported: the same change fixes those below.
        if node.depth == limits.levels {
            problems.push(node.line, Some(&node.key), ProblemKind::Limit, || {
                format!(
                    "it is more than {} levels deep; move it under a task further up",
                    limits.levels
                )
            });
        }
        if node.open_children as usize > limits.children {
            problems.push(node.line, Some(&node.key), ProblemKind::Limit, || {
                format!(
                    "it has {} children, and {} are allowed; group them",
                    node.open_children, limits.children
                )
            });
        }
    }
}

//! Output of `--dry-run` for a task graph.

use serde::Serialize;

use ralph_domain::budget::estimate::Estimate;
use ralph_domain::graph::{Graph, Node, Waves};

/// A valid task graph.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CheckedGraph {
    /// The file of the graph, or `standard input`.
    pub source: String,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of dependencies between tasks.
    pub edges: usize,
    /// Number of waves, if every task takes the same time.
    pub waves: usize,
    /// Number of tasks that can start at once.
    pub can_start: usize,
    /// The most tasks that can run in parallel.
    pub side_by_side: usize,
    /// The tasks; parents and blockers come before the tasks that depend on them.
    pub graph: Vec<CheckedTask>,
    /// Warnings; at most 20 of them about ignored input.
    pub warnings: Vec<String>,
    /// Expected cost and time, based on earlier tasks; null without a coordinator.
    pub estimate: Option<Estimate>,
}

/// A task of a valid graph. Fields that the task doesn't set are null or empty, and inherited from the
/// feature.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CheckedTask {
    /// Name within the graph.
    pub key: String,
    /// The task, on one line.
    pub title: String,
    /// Key of the parent task.
    pub parent: Option<String>,
    /// Keys of the tasks that must be done before.
    pub after: Vec<String>,
    /// Tasks of wave 1 can start at once. Tasks of wave 2 can start when the tasks of wave 1 that they wait
    /// for are done, and so on. Null for a parent, which is never executed itself.
    pub wave: Option<u32>,
    /// Lower goes first.
    pub priority: i32,
    /// Pool of workers that may take it.
    pub pool: Option<String>,
    /// Configured agent.
    pub agent: Option<String>,
    /// Model or tier.
    pub model: Option<String>,
    /// Number of retries.
    pub max_retries: Option<u32>,
    /// Whether another session judges each attempt.
    pub verify: Option<bool>,
    /// Declared paths of its changes.
    pub paths: Vec<String>,
}

impl CheckedGraph {
    /// Describes this graph, with these warnings.
    pub fn new(graph: &Graph, warnings: Vec<String>, estimate: Option<Estimate>) -> Self {
        let waves = Waves::of(graph);
        let tasks = graph.nodes.iter().zip(&waves.of_task);
        Self {
            source: graph.source_name.clone(),
            tasks: graph.nodes.len(),
            edges: graph.edges,
            waves: waves.widths.len(),
            can_start: waves.first(),
            side_by_side: waves.widest(),
            graph: tasks
                .map(|(node, wave)| task(node, *wave, &graph.nodes))
                .collect(),
            warnings,
            estimate,
        }
    }
}

fn task(node: &Node, wave: u32, nodes: &[Node]) -> CheckedTask {
    let key = |index: u32| nodes[index as usize].key.clone();
    CheckedTask {
        key: node.key.clone(),
        title: node.title.clone(),
        parent: node.parent.map(key),
        after: node.after.iter().copied().map(key).collect(),
        wave: (node.open_children == 0).then_some(wave),
        priority: node.priority,
        pool: node.pool.clone(),
        agent: node.agent.clone(),
        model: node.model.clone(),
        max_retries: node.max_retries,
        verify: node.verify,
        paths: node.paths.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use ralph_domain::graph::{self, Limits};

    #[test]
    fn the_json_document_agrees_with_the_drawn_graph() {
        let text = "- {key: a, title: Do a, priority: -1, pool: gpu, agent: x, model: opus, max_retries: 1, verify: false, paths: [src]}\n\
                    - {key: b, title: Do b}\n\
                    - {key: b1, title: Do b1, parent: b, after: [a]}\n\
                    - {key: c, title: Do c, after: [b, a]}\n";
        let graph = graph::load("tasks.yaml", text, &Limits::file()).unwrap();
        let document = CheckedGraph::new(&graph, vec!["w".to_owned()], None);
        let document: Value = serde_json::to_value(document).unwrap();
        for (field, value) in [
            ("source", json!("tasks.yaml")),
            ("tasks", json!(4)),
            ("edges", json!(3)),
            ("waves", json!(3)),
            ("can_start", json!(1)),
            ("side_by_side", json!(1)),
            ("warnings", json!(["w"])),
        ] {
            assert_eq!(document[field], value, "{field}");
        }
        let a = json!({
            "key": "a", "title": "Do a", "parent": null, "after": [], "wave": 1, "priority": -1, "pool": "gpu", "agent": "x",
            "model": "opus", "max_retries": 1, "verify": false, "paths": ["src"],
        });
        assert_eq!(document["graph"][0], a);
        let drawn = graph::draw(&graph);
        let waves: Vec<(String, Value)> = document["graph"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| (task["key"].as_str().unwrap().to_owned(), task["wave"].clone()))
            .collect();
        for (key, wave) in [
            ("a", json!(1)),
            ("b", Value::Null),
            ("b1", json!(2)),
            ("c", json!(3)),
        ] {
            assert!(
                waves.contains(&(key.to_owned(), wave)),
                "{key}: {waves:?}\n{drawn}"
            );
        }
        let of = |key: &str| {
            let tasks = document["graph"].as_array().unwrap();
            tasks.iter().find(|task| task["key"] == key).unwrap().clone()
        };
        assert_eq!(
            (&of("b1")["parent"], &of("b1")["after"]),
            (&json!("b"), &json!(["a"]))
        );
        assert_eq!(of("c")["after"], json!(["b", "a"]));
    }
}

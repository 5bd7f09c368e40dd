//! What `--dry-run` tells of a task graph.

use serde::Serialize;

use ralph_domain::budget::estimate::Estimate;
use ralph_domain::graph::{Graph, Node, Waves};

/// A task graph that could be submitted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CheckedGraph {
    /// The file that it was read from, or `standard input`.
    pub source: String,
    /// How many tasks it has.
    pub tasks: usize,
    /// How many blockers they have together.
    pub edges: usize,
    /// How many waves it takes, if every task takes the same time.
    pub waves: usize,
    /// How many tasks can start at once.
    pub can_start: usize,
    /// How many can run side by side at most.
    pub side_by_side: usize,
    /// The tasks, parents and blockers before what they hold.
    pub graph: Vec<CheckedTask>,
    /// What was ignored, the first 20, and what else one should know.
    pub warnings: Vec<String>,
    /// What it is going to cost and how long it is going to take, by earlier tasks; null where no coordinator tells.
    pub estimate: Option<Estimate>,
}

/// A task of a graph that could be submitted. What it doesn't say is null, or empty, and is the feature's.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CheckedTask {
    /// Its name within the graph.
    pub key: String,
    /// What is to be done, on one line.
    pub title: String,
    /// Key of the task that it is a part of.
    pub parent: Option<String>,
    /// Keys of the tasks that must be done before.
    pub after: Vec<String>,
    /// Tasks of wave 1 can start at once, those of wave 2 when those of wave 1 that they wait for are done, and so on. None of a parent,
    /// which isn't worked on itself.
    pub wave: Option<u32>,
    /// Lower goes first.
    pub priority: i32,
    /// Pool of workers that may take it.
    pub pool: Option<String>,
    /// Configured agent.
    pub agent: Option<String>,
    /// Model or tier.
    pub model: Option<String>,
    /// Retries.
    pub max_retries: Option<u32>,
    /// Whether another session judges each attempt.
    pub verify: Option<bool>,
    /// Paths that it is declared to change.
    pub paths: Vec<String>,
}

impl CheckedGraph {
    /// What is told of this graph, with these warnings.
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
    fn a_program_is_told_what_is_drawn_for_people() {
        let text = "- {key: a, title: Do a, priority: -1, pool: gpu, agent: x, model: opus, max_retries: 1, verify: false, paths: [src]}\n\
                    - {key: b, title: Do b}\n\
                    - {key: b1, title: Do b1, parent: b, after: [a]}\n\
                    - {key: c, title: Do c, after: [b, a]}\n";
        let graph = graph::load("tasks.yaml", text, &Limits::file()).unwrap();
        let told = CheckedGraph::new(&graph, vec!["w".to_owned()], None);
        let told: Value = serde_json::to_value(told).unwrap();
        for (field, value) in [
            ("source", json!("tasks.yaml")),
            ("tasks", json!(4)),
            ("edges", json!(3)),
            ("waves", json!(3)),
            ("can_start", json!(1)),
            ("side_by_side", json!(1)),
            ("warnings", json!(["w"])),
        ] {
            assert_eq!(told[field], value, "{field}");
        }
        let a = json!({
            "key": "a", "title": "Do a", "parent": null, "after": [], "wave": 1, "priority": -1, "pool": "gpu", "agent": "x",
            "model": "opus", "max_retries": 1, "verify": false, "paths": ["src"],
        });
        assert_eq!(told["graph"][0], a);
        let drawn = graph::draw(&graph);
        let waves: Vec<(String, Value)> = told["graph"]
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
            let tasks = told["graph"].as_array().unwrap();
            tasks.iter().find(|task| task["key"] == key).unwrap().clone()
        };
        assert_eq!(
            (&of("b1")["parent"], &of("b1")["after"]),
            (&json!("b"), &json!(["a"]))
        );
        assert_eq!(of("c")["after"], json!(["b", "a"]));
    }
}

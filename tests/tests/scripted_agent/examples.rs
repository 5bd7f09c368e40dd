//! The example task files work, without a pool.

use std::path::{Path, PathBuf};
use std::process::Command;

use ralph_coordinator::domain::graph::{Graph, Limits, Node, load};
use ralph_tests::agent::check_script;

use super::client::Talk;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(name)
        .canonicalize()
        .unwrap()
}

fn graph(name: &str) -> Graph {
    let file = example(name).join("tasks.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let graph = load(&file.display().to_string(), &text, &Limits::file()).unwrap();
    assert!(graph.warnings.is_empty(), "{:?}", graph.warnings);
    graph
}

/// The number of tasks that must end, one after the other, before each task can start.
fn levels(graph: &Graph) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::new();
    for node in &graph.nodes {
        // A blocking parent ends with the last of its children.
        let ends = |blocker: u32| {
            let children = graph
                .nodes
                .iter()
                .zip(&levels)
                .filter(move |(node, _)| node.parent == Some(blocker));
            children
                .map(|(_, level)| level + 1)
                .max()
                .unwrap_or(levels[blocker as usize] + 1)
        };
        levels.push(node.after.iter().map(|blocker| ends(*blocker)).max().unwrap_or(0));
    }
    levels
}

#[test]
fn the_todo_graph_is_deep_and_wide() {
    let graph = graph("todo");
    let work = graph
        .nodes
        .iter()
        .zip(levels(&graph))
        .filter(|(node, _)| node.open_children == 0);
    let mut widths = vec![0; 8];
    for (node, level) in work {
        widths[level] += 1;
        check_script(&node.description).unwrap_or_else(|errors| panic!("{}: {errors:?}", node.key));
    }
    assert_eq!(widths, [5, 3, 4, 1, 1, 1, 0, 0]);
}

#[test]
fn the_example_for_real_agents_contains_no_directives() {
    let graph = graph("self");
    assert_eq!(graph.nodes.len(), 4);
    assert!(
        graph
            .nodes
            .iter()
            .all(|node| !node.description.lines().any(|line| line.starts_with('@')))
    );
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = [
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@localhost",
        "-c",
        "commit.gpgsign=false",
    ];
    let git = Command::new("git")
        .args(identity)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        git.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&git.stderr)
    );
}

/// Runs one session of a task; returns its text.
async fn session(folder: &Path, node: &Node, attempt: &str, kind: &str) -> String {
    let environment = [("RALPH_ATTEMPT", attempt), ("RALPH_KIND", kind)];
    let talk = Talk {
        environment: &environment,
        ..Talk::default()
    };
    let prompt = format!(
        "## Assigned Task\n\nID: {}\nTitle: {}\n\n{}\n",
        node.key, node.title, node.description
    );
    talk.hold(folder, &prompt).await.text()
}

#[tokio::test]
async fn the_todo_feature_is_built_task_by_task() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("todo");
    let copied = Command::new("cp")
        .arg("-R")
        .arg(example("todo/repo"))
        .arg(&repository)
        .status()
        .unwrap();
    assert!(copied.success());
    git(
        &repository,
        &["init", "--quiet", "--initial-branch", "ralph/todo"],
    );
    git(&repository, &["add", "--all"]);
    git(&repository, &["commit", "--quiet", "--message", "Start"]);

    let mut recovered = Vec::new();
    for node in graph("todo").nodes.iter().filter(|node| node.open_children == 0) {
        let done = format!("<task-done>{}</task-done>", node.key);
        let text = session(&repository, node, "1", "work").await;
        if !text.contains(&done) {
            recovered.push(node.key.clone());
            if text.contains("<task-failed>") {
                // A task that gave up starts from the feature branch again (SPEC 3.3).
                git(&repository, &["reset", "--quiet", "--hard"]);
                git(&repository, &["clean", "--quiet", "-d", "--force"]);
            }
            let text = session(&repository, node, "2", "work").await;
            assert!(text.contains(&done), "{}: {text}", node.key);
        }
        git(&repository, &["add", "--all"]);
        let message = format!("{}\n\nRalph-Task: {}", node.title, node.key);
        git(&repository, &["commit", "--quiet", "--message", &message]);
        assert_eq!(
            session(&repository, node, "1", "verify").await,
            "<verify-pass/>\n",
            "{}",
            node.key
        );
    }
    recovered.sort();
    assert_eq!(recovered, ["parse-date", "store"]);

    let check = Command::new(example("todo").join("check.sh"))
        .arg(&repository)
        .output()
        .unwrap();
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stderr)
    );
}

//! A run of one task and nothing else of its feature.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, stdout_of};

const TASKS: &str = "- {key: a, title: A, description: \"@write a.txt a\\n@done\"}
- {key: b, title: B, after: [a], description: \"@write b.txt b\\n@done\"}
- {key: c, title: C, description: \"@write c.txt c\\n@done\"}
";

async fn statuses(stage: &Stage) -> Vec<String> {
    let mut statuses = Vec::new();
    for key in ["a", "b", "c"] {
        let (_, task) = stage.api.get(&format!("/tasks/f%2F{key}")).await;
        statuses.push(task["status"].as_str().unwrap_or_default().to_owned());
    }
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_alone_once_its_blockers_are_done() {
    let stage = Stage::start().await;
    stage
        .submit(json!({"tasks": {"source": "t", "text": TASKS}, "draft": true}))
        .await;
    let refused = output(&stage, "task run f/b").await;
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("`a` (pending)") && text.contains("waits for"),
        "{text}"
    );
    let text = stdout_of(&stage, "task run f/a --wait").await;
    assert!(text.contains("Complete") && text.contains("is done"), "{text}");
    assert_eq!(statuses(&stage).await, ["done", "pending", "pending"]);
    let runs: Value = serde_json::from_str(&stdout_of(&stage, "run list --output json").await).unwrap();
    let (_, a) = stage.api.get("/tasks/f%2Fa").await;
    assert_eq!(runs["items"][0]["only_task"], a["id"], "{runs}");
    assert_eq!(runs["items"][0]["outcome"], "complete", "{runs}");
    // The feature has more to do: task c now waits for a run of the feature, no longer for the end of that
    // run.
    let shown = stdout_of(&stage, "task show f/c").await;
    assert!(!shown.contains("alone") && shown.contains("waits: "), "{shown}");
    let (_, feature) = stage.api.get("/features/f").await;
    assert_eq!(
        (&feature["status"], &feature["needs_run"]),
        (&json!("ready"), &json!(true)),
        "{feature}"
    );
    let again = output(&stage, "task run f/a").await;
    assert!(String::from_utf8_lossy(&again.stderr).contains("is done"));

    stdout_of(&stage, "task run f/c --wait").await;
    assert_eq!(statuses(&stage).await, ["done", "pending", "done"]);
    // The feature's run does the rest.
    stdout_of(&stage, "feature run f --wait").await;
    assert_eq!(statuses(&stage).await, ["done", "done", "done"]);
    assert_eq!(stage.file("b.txt"), "b");
    let (_, feature) = stage.api.get("/features/f").await;
    assert_eq!(feature["status"], "done", "{feature}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_alone_ends_its_run_and_a_retry_runs_it_alone() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: A, max_retries: 0, description: \"@fail no\"}\n\
                 - {key: b, title: B, description: \"@write b.txt b\\n@done\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}, "draft": true}))
        .await;
    let ended = output(&stage, "task run f/a --no-review --wait").await;
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(
        !ended.status.success() && text.contains("failed for good"),
        "{text}"
    );
    let refused = output(&stage, "task run f/a").await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("task retry"));
    stdout_of(
        &stage,
        "task edit f/a --yes --description \"@write a.txt a\n@done\"",
    )
    .await;
    stdout_of(&stage, "task retry f/a").await;
    stdout_of(&stage, "feature wait f").await;
    let (_, a) = stage.api.get("/tasks/f%2Fa").await;
    let (_, b) = stage.api.get("/tasks/f%2Fb").await;
    assert_eq!(
        (&a["status"], &b["attempt"]),
        (&json!("done"), &json!(0)),
        "{a}\n{b}"
    );
}

//! Reasons that people see for tasks that no worker can start now (SPEC 7.3).

use ralph_tests::harness::{WorkerOptions, binary};
use serde_json::json;

use crate::stage::Stage;
use crate::typed::{output, stdout_of, wait_for_output};

#[tokio::test]
async fn a_task_that_no_worker_can_start_shows_why_it_waits() {
    let config = "[agents.gone]\ncommand = \"/no/such/agent\"\n";
    let stage = Stage::with(&WorkerOptions::named("w"), &[("README.md", "begin\n")], config).await;
    let task = |key: &str, more: serde_json::Value| {
        let mut task = json!({"key": key, "title": key, "description": "@done"});
        for (key, value) in more.as_object().unwrap() {
            task[key] = value.clone();
        }
        task
    };
    let tasks = json!([
        task("ghost", json!({"agent": "ghost"})),
        task("gone", json!({"agent": "gone"})),
        task("nowhere", json!({"pool": "nowhere"})),
        task("good", json!({})),
    ]);
    let accepted = stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    let warns = |accepted: &serde_json::Value, agent: &str| {
        let mut warnings = accepted["warnings"].as_array().unwrap().iter();
        let words = format!("no worker has an agent `{agent}` (they have default");
        warnings.any(|warning| warning.as_str().unwrap().starts_with(&words))
    };
    assert!(
        warns(&accepted, "ghost") && !warns(&accepted, "default"),
        "{accepted}"
    );
    let run = json!({"name": "g", "draft": true, "description": "x", "run": {"agent": "spook"}});
    let (_, accepted) = stage.api.post("/features", &run).await;
    assert!(warns(&accepted, "spook"), "{accepted}");
    for line in [
        "task edit f/nowhere --agent nobody",
        "feature edit g --agent nobody",
    ] {
        let stderr = output(&stage, line).await.stderr;
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(
            stderr.contains("no worker has an agent `nobody`"),
            "{line}: {stderr}"
        );
    }
    let status = wait_for_output(&stage, "status", "1 task waits: on every worker of pool default").await;
    for words in [
        "1 task waits: no worker of pool default has agent ghost (they have default, gone): add [agents.ghost] to",
        "1 task waits: no worker serves pool nowhere: start one with `ralph-worker run --pool nowhere`",
        "first on w: agent gone can't be started (failed ",
        "\nw: agent gone can't be started (failed ",
    ] {
        assert!(status.contains(words), "{words}\n{status}");
    }
    let shown = stdout_of(&stage, "task show f/ghost").await;
    assert!(
        shown.contains("  waits: no worker of pool default has agent ghost"),
        "{shown}"
    );
    let workers = wait_for_output(&stage, "worker list", "w: agent gone can't be started").await;
    assert!(workers.contains("/no/such/agent"), "{workers}");
    let listed = stdout_of(&stage, "worker list --output json").await;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    if let Some(door) = listed["items"][0]["doors"].get(0) {
        assert_eq!(
            (&door["agent"], &door["door"]),
            (&json!("gone"), &json!("not_found"))
        );
        assert!(
            door["until"].is_string() && door["failures"].as_u64() > Some(0),
            "{door}"
        );
    }
    wait_for_output(&stage, "task show f/good", ": done").await;
    // A worker with the agent begins at once.
    std::fs::write(
        stage.world.dir().join(".ralph.toml"),
        format!(
            "[agents.ghost]\ncommand = \"{}\"\n",
            binary("ralph-scripted-agent").display()
        ),
    )
    .unwrap();
    let other = stage.world.worker(&WorkerOptions::named("other")).unwrap();
    let shown = wait_for_output(&stage, "task show f/ghost", ": done").await;
    assert!(!shown.contains("waits:"), "{shown}");
    drop(other);
}

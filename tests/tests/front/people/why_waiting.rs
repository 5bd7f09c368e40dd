//! Reasons why a task waits, in every place that shows them.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{started, stdout_of, wait_for_output, wait_for_words};

async fn task(stage: &Stage, name: &str) -> Value {
    serde_json::from_str(&stdout_of(stage, &format!("task show {name} --output json")).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backoff_is_shown_with_its_cause_and_end() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: A, description: \"@fail the tests are red\"}\n\
                 - {key: b, title: B, after: [a]}\n";
    let more = json!({"tasks": {"source": "t", "text": tasks}, "run": {"backoff_ms": 3_600_000}});
    stage.submit(more).await;
    let wait = started(&stage, "wait", "feature wait f");
    wait_for_words(
        &wait,
        "attempt 1 (work) failed: the tests are red; tried again at 20",
    )
    .await;
    let why = "attempt 1 failed, tried again: the tests are red";
    for line in ["task show f/a", "task list f", "task tree f"] {
        let shown = wait_for_output(&stage, line, why).await;
        assert!(shown.contains(" until 20"), "`{line}`: {shown}");
    }
    let shown = task(&stage, "f/a").await;
    assert!(
        shown["waits_until"].is_string() && shown["waits"] == why,
        "{shown}"
    );
    assert_eq!(task(&stage, "f/b").await["waits"], "waits for a");
    wait_for_output(&stage, "status", why).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_position_is_shown_while_all_slots_are_busy() {
    let stage = Stage::start().await;
    let go = stage.world.dir().join("go");
    let tasks = format!(
        "- {{key: a, title: A, description: \"@wait-for {}\\n@done\"}}\n\
         - {{key: b, title: B, priority: 1, description: \"@done\"}}\n- {{key: c, title: C, priority: 2, description: \"@done\"}}\n",
        go.display()
    );
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    wait_for_output(&stage, "task tree f", "work on w").await;
    let why = "queued: 2 of 2 in pool default, 1 of 1 slots busy";
    for line in ["task show f/c", "task list f", "task tree f", "status"] {
        wait_for_output(&stage, line, why).await;
    }
    let shown = task(&stage, "f/c").await;
    assert_eq!(
        shown["queue"],
        json!({"pool": "default", "position": 2, "of": 2, "slots": 1, "busy": 1})
    );
    stdout_of(&stage, "feature pause f").await;
    wait_for_output(&stage, "task show f/c", "its feature is paused").await;
    std::fs::write(go, "").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_worker_and_a_start_time_are_different_reasons() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: A, pool: gpu}\n- {key: b, title: B, not_before: 2999-01-01T00:00:00Z}\n\
                 - {key: c, title: C, pool: gpu, concurrency: {key: db, limit: 1}}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    wait_for_output(&stage, "task show f/a", "no worker serves pool gpu").await;
    wait_for_output(&stage, "task show f/b", "it begins later until 2999-01-01").await;
    stdout_of(&stage, "feature stop f").await;
    wait_for_output(&stage, "task show f/a", "its feature is stopped").await;
}

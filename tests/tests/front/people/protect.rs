//! Protected paths: a person approves a change before it lands.

use ralph_tests::harness::WorkerOptions;
use serde_json::json;

use crate::stage::Stage;
use crate::typed::{output, stdout_of};

const FILES: &[(&str, &str)] = &[
    ("README.md", "begin\n"),
    ("db/1.sql", "create table a ();\n"),
    ("checks/run.sh", "test -f README.md\n"),
];

async fn start() -> Stage {
    Stage::with(&WorkerOptions::named("w").slots(2), FILES, "").await
}

async fn submit(stage: &Stage, tasks: serde_json::Value, run: serde_json::Value) {
    let tasks = json!({"source": "t", "text": tasks.to_string()});
    stage.submit(json!({"tasks": tasks, "run": run})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_that_an_agent_wrote_lands_when_a_person_approves() {
    let stage = start().await;
    let tasks = json!([
        {"key": "ci", "title": "Set up CI", "description": "@write .github/workflows/test.yml on: push\n@done"},
        {"key": "code", "title": "Write code", "description": "@write code.txt code\n@done"},
    ]);
    submit(&stage, tasks, json!({"backoff_ms": 0, "review": false})).await;
    let over = stage.ends("blocked").await;
    let waits = over["attention"][0]["reason"].as_str().unwrap_or_default();
    let expected = "its work passed, but it changes protected files: .github/workflows/test.yml";
    assert!(waits.contains(expected), "{over}");
    assert_eq!(stage.file("code.txt"), "code");

    stdout_of(&stage, "task approve f/ci").await;
    stage.ends("complete").await;
    assert_eq!(stage.file(".github/workflows/test.yml"), "on: push");
    assert_eq!(
        stage.titles().await,
        [("Set up CI".to_owned(), 1), ("Write code".to_owned(), 1)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feature_sets_its_protected_paths_and_a_move_changes_one() {
    let stage = start().await;
    let tasks = json!([
        {"key": "a", "title": "Move it", "description":
            "@on-attempt 1 @run git mv db/1.sql first.sql\n@on-attempt 2 @run mkdir -p db\n@on-attempt 2 @run git mv first.sql db/1.sql\n@on-attempt 2 @write .github/workflows/test.yml on: push\n@done"},
    ]);
    let run = json!({"backoff_ms": 0, "protect": ["db/**", "Makefile"]});
    submit(&stage, tasks, run).await;
    let over = stage.ends("blocked").await;
    let waits = over["attention"][0]["reason"].as_str().unwrap_or_default();
    assert!(waits.contains("protected files: db/1.sql\n"), "{over}");
    stdout_of(&stage, "task reject f/a --reason 'leave it there'").await;
    stage.ends("complete").await;
    assert_eq!(stage.file(".github/workflows/test.yml"), "on: push");
    assert_eq!(stage.file("db/1.sql"), "create table a ();");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_pattern_of_protected_paths_is_refused() {
    let stage = start().await;
    for (pattern, expected) in [
        ("../x", "`../x` is not a path pattern"),
        ("/etc/**", "`/etc/**` is not a path pattern"),
    ] {
        let line = format!("submit feature g --description x --no-repo --protect {pattern}");
        let output = output(&stage, &line).await;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && stderr.contains(expected),
            "{stderr}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verifier_learns_of_a_changed_script_of_the_gate() {
    let stage = start().await;
    let description = "@write checks/run.sh true\n@done\n\
        @on-kind verify @if-prompt-has checks/run.sh: may change what is checked : @say <verify-fail>The check is gone.</verify-fail>\n\
        @on-kind verify @say <verify-pass/>";
    let tasks = json!([{"key": "a", "title": "Do it", "description": description, "max_retries": 0}]);
    let tasks = json!({"source": "t", "text": tasks.to_string()});
    let run = json!({"backoff_ms": 0, "gate": ["sh ./checks/run.sh"]});
    stage
        .submit(json!({"verify": true, "tasks": tasks, "run": run}))
        .await;
    let over = stage.ends("blocked").await;
    let waits = over["attention"][0]["reason"].as_str().unwrap_or_default();
    assert!(waits.contains("The check is gone."), "{over}");
}

//! A gate that fails on the base commit: people are informed, nothing lands, no failure counts, and a person
//! decides.

use ralph_tests::harness::WorkerOptions;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{code_and_output, started, stdout_of, wait_for_output};

const ONE: &str = r"
- key: a
  title: Do it
  description: |
    @write a.txt a
    @done
";

async fn start() -> Stage {
    let options = WorkerOptions::named("w").slots(2);
    Stage::with(&options, &[("README.md", "begin\n")], "").await
}

/// Submits the feature `f` with this gate.
async fn submit(stage: &Stage, tasks: &str, gate: &str) {
    let tasks = json!({"source": "tasks.yaml", "text": tasks});
    stage
        .submit(json!({"tasks": tasks, "run": {"backoff_ms": 0, "gate": [gate]}}))
        .await;
}

/// Runs a command that waits, and checks that the gate blocks the run.
async fn check_blocked(stage: &Stage, line: &str) {
    let (code, text) = code_and_output(stage, line).await;
    let expected = [
        "Blocked — the gate fails on the base commit",
        "the tool is missing",
    ];
    assert!(
        code == Some(4) && expected.iter().all(|words| text.contains(words)),
        "{code:?}: {text}"
    );
}

async fn attempts(stage: &Stage) -> Vec<(i32, i16)> {
    sqlx::query_as("select attempt, failures from tasks where role = 'work' order by id")
        .fetch_all(&stage.world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_may_allow_a_gate_that_fails_on_the_base() {
    let stage = start().await;
    let tasks = r"
- key: a
  title: Do it
  description: |
    @on-attempt 1 @write a.txt a
    @on-attempt 2 @write tool here
    @done
";
    submit(
        &stage,
        tasks,
        "test -f tool || { echo the tool is missing; exit 1; }",
    )
    .await;
    check_blocked(&stage, "feature wait f").await;
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    let fails = "the gate fails on the base commit";
    for line in ["status", "feature show f"] {
        let text = stdout_of(&stage, line).await;
        assert!(
            text.contains(fails) && text.contains("the tool is missing"),
            "`{line}`: {text}"
        );
    }
    let (_, shown) = stage.api.get("/features/f").await;
    let gate = &shown["gate"];
    assert_eq!(gate["state"], "failed", "{shown}");
    assert_eq!(gate["worker"], "w", "{shown}");
    assert!(
        gate["output"].as_str().unwrap().contains("the tool is missing"),
        "{shown}"
    );
    let status: Value = serde_json::from_str(&stdout_of(&stage, "status --output json").await).unwrap();
    assert_eq!(status["features"][0]["gate"], *gate);
    let (_, progress) = stage.api.get("/features/f/progress").await;
    let why = progress["attention"][0]["reason"].as_str().unwrap();
    assert!(
        why.starts_with(fails) && why.ends_with("[exit status: 1]"),
        "{why}"
    );

    let (code, text) = code_and_output(&stage, "feature run f --gate-may-fail-on-base --wait").await;
    assert!(code == Some(0), "{text}");
    // The first attempt failed the gate, as it would without the check of the base.
    assert_eq!(attempts(&stage).await[0].0, 2);
    assert_eq!(stage.file("tool"), "here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_gate_unblocks_a_feature_without_another_attempt() {
    let stage = start().await;
    submit(&stage, ONE, "echo the tool is missing; false").await;
    check_blocked(&stage, "feature wait f").await;
    let (code, text) = code_and_output(&stage, "feature run f --gate 'test -f README.md' --wait").await;
    assert!(code == Some(0), "{text}");
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    assert_eq!(stage.file("a.txt"), "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_is_edited_while_the_run_goes_on() {
    let stage = start().await;
    let go = stage.world.gate("go");
    let tasks = format!(
        "- key: a\n  title: Do it\n  description: |\n    @wait-for {}\n    @write a.txt a\n    @done\n",
        go.display()
    );
    submit(&stage, &tasks, "echo the tool is missing; false").await;
    let waits = started(&stage, "waits", "feature wait f");
    wait_for_output(&stage, "feature show f", "the gate fails on the base commit").await;
    wait_for_output(
        &stage,
        "task list --status needs_review",
        "Try the gate on the base",
    )
    .await;
    stdout_of(&stage, "feature edit f --gate-may-fail-on-base").await;
    let text = stdout_of(&stage, "feature show f").await;
    assert!(text.contains("the gate may fail on the base commit"), "{text}");
    stdout_of(&stage, "feature edit f --gate 'test -f README.md'").await;
    std::fs::write(&go, "").unwrap();
    stage.ends("complete").await;
    assert!(
        waits.output().contains("the gate fails on the base commit"),
        "{}",
        waits.output()
    );
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    let (_, shown) = stage.api.get("/features/f").await;
    assert_eq!(shown["gate"]["state"], "passed", "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repaired_gate_is_tried_again_and_its_pass_is_shared() {
    let stage = start().await;
    let [tool, log] = ["tool", "gates"].map(|name| stage.world.dir().join("effects").join(name));
    let gate = format!(
        "git rev-parse HEAD >> {}; test -f {} || {{ echo the tool is missing; exit 1; }}",
        log.display(),
        tool.display()
    );
    submit(&stage, ONE, &gate).await;
    check_blocked(&stage, "feature wait f").await;
    check_blocked(&stage, "feature run f --wait").await;
    std::fs::write(&tool, "").unwrap();
    let (code, text) = code_and_output(&stage, "feature run f --wait").await;
    assert!(code == Some(0), "{text}");
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    let base = stage.repository.head("main").unwrap();
    let tries = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| **line == base).count()
    };
    assert_eq!(tries(), 3);
    let tasks = json!({"source": "tasks.yaml", "text": ONE});
    stage
        .submit(json!({"name": "g", "tasks": tasks, "run": {"backoff_ms": 0, "gate": [gate]}}))
        .await;
    let (code, text) = code_and_output(&stage, "feature wait g").await;
    assert!(code == Some(0), "{text}");
    assert_eq!(tries(), 3, "the gate must not be tried on the base again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repaired_base_is_tried_after_an_update() {
    let stage = start().await;
    submit(
        &stage,
        ONE,
        "test -f tool || { echo the tool is missing; exit 1; }",
    )
    .await;
    check_blocked(&stage, "feature wait f").await;
    stage.repository.commit("main", "tool", "here").unwrap();
    stdout_of(&stage, "feature update f").await;
    let (code, text) = code_and_output(&stage, "feature run f --wait").await;
    assert!(code == Some(0), "{text}");
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    assert_eq!(stage.file("tool"), "here");
}

//! A gate that can't pass where the feature begins: people hear of it, nothing lands or counts, and they decide.

use ralph_tests::harness::WorkerOptions;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, said, started, until_said};

const ONE: &str = r"
- key: a
  title: Do it
  description: |
    @write a.txt a
    @done
";

async fn set() -> Stage {
    let options = WorkerOptions::named("w").slots(2);
    Stage::with(&options, &[("README.md", "begin\n")], "").await
}

/// Submits the feature `f` with such a gate.
async fn submit(stage: &Stage, tasks: &str, gate: &str) {
    let tasks = json!({"source": "tasks.yaml", "text": tasks});
    stage
        .submit(json!({"tasks": tasks, "run": {"backoff_ms": 0, "gate": [gate]}}))
        .await;
}

async fn code_and_words(stage: &Stage, line: &str) -> (Option<i32>, String) {
    let output = output(stage, line).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// Waits until the run is blocked by the gate; the code and the words of the command that waits.
async fn is_blocked(stage: &Stage, line: &str) {
    let (code, said) = code_and_words(stage, line).await;
    let told = [
        "Blocked — the gate fails on the base commit",
        "the tool is missing",
    ];
    assert!(
        code == Some(4) && told.iter().all(|words| said.contains(words)),
        "{code:?}: {said}"
    );
}

async fn attempts(stage: &Stage) -> Vec<(i32, i16)> {
    sqlx::query_as("select attempt, failures from tasks where role = 'work' order by id")
        .fetch_all(&stage.world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_fails_on_the_base_is_told_and_a_person_lets_it() {
    let stage = set().await;
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
    is_blocked(&stage, "feature wait f").await;
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    let fails = "the gate fails on the base commit";
    for line in ["status", "feature show f"] {
        let text = said(&stage, line).await;
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
    let status: Value = serde_json::from_str(&said(&stage, "status --output json").await).unwrap();
    assert_eq!(status["features"][0]["gate"], *gate);
    let (_, progress) = stage.api.get("/features/f/progress").await;
    let why = progress["attention"][0]["reason"].as_str().unwrap();
    assert!(
        why.starts_with(fails) && why.ends_with("[exit status: 1]"),
        "{why}"
    );

    let (code, said) = code_and_words(&stage, "feature run f --gate-may-fail-on-base --wait").await;
    assert!(code == Some(0), "{said}");
    // Its first attempt failed the gate, as it would without a check.
    assert_eq!(attempts(&stage).await[0].0, 2);
    assert_eq!(stage.file("tool"), "here");
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_gate_lets_a_blocked_feature_go_on_without_another_attempt() {
    let stage = set().await;
    submit(&stage, ONE, "echo the tool is missing; false").await;
    is_blocked(&stage, "feature wait f").await;
    let (code, said) = code_and_words(&stage, "feature run f --gate 'test -f README.md' --wait").await;
    assert!(code == Some(0), "{said}");
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    assert_eq!(stage.file("a.txt"), "a");
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_is_edited_while_the_run_goes_on() {
    let stage = set().await;
    let go = stage.world.gate("go");
    let tasks = format!(
        "- key: a\n  title: Do it\n  description: |\n    @wait-for {}\n    @write a.txt a\n    @done\n",
        go.display()
    );
    submit(&stage, &tasks, "echo the tool is missing; false").await;
    let waits = started(&stage, "waits", "feature wait f");
    until_said(&stage, "feature show f", "the gate fails on the base commit").await;
    until_said(
        &stage,
        "task list --status needs_review",
        "Try the gate on the base",
    )
    .await;
    said(&stage, "feature edit f --gate-may-fail-on-base").await;
    let text = said(&stage, "feature show f").await;
    assert!(text.contains("the gate may fail on the base commit"), "{text}");
    said(&stage, "feature edit f --gate 'test -f README.md'").await;
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
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_mended_is_tried_again_and_a_pass_is_shared() {
    let stage = set().await;
    let [tool, log] = ["tool", "gates"].map(|name| stage.world.dir().join("effects").join(name));
    let gate = format!(
        "git rev-parse HEAD >> {}; test -f {} || {{ echo the tool is missing; exit 1; }}",
        log.display(),
        tool.display()
    );
    submit(&stage, ONE, &gate).await;
    is_blocked(&stage, "feature wait f").await;
    is_blocked(&stage, "feature run f --wait").await;
    std::fs::write(&tool, "").unwrap();
    let (code, said) = code_and_words(&stage, "feature run f --wait").await;
    assert!(code == Some(0), "{said}");
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
    let (code, said) = code_and_words(&stage, "feature wait g").await;
    assert!(code == Some(0), "{said}");
    assert_eq!(tries(), 3, "the gate was tried on the base again");
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_that_was_mended_is_tried_once_it_is_taken_in() {
    let stage = set().await;
    submit(
        &stage,
        ONE,
        "test -f tool || { echo the tool is missing; exit 1; }",
    )
    .await;
    is_blocked(&stage, "feature wait f").await;
    stage.repository.commit("main", "tool", "here").unwrap();
    said(&stage, "feature update f").await;
    let (code, said) = code_and_words(&stage, "feature run f --wait").await;
    assert!(code == Some(0), "{said}");
    assert_eq!(attempts(&stage).await, [(1, 0)]);
    assert_eq!(stage.file("tool"), "here");
    stage.strike().await;
}

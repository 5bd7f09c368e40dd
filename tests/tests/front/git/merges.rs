//! Requested merges: an unfinished feature needs consent, a merge that is impossible now is not queued, and
//! the diff is shown after a merge too.

use std::process::Command;

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, stdout_of};

const TASKS: &str = r#"
- key: a
  title: Lands
  description: |
    @write a.txt one
    @done
- key: b
  title: Needs a person
  max_retries: 0
  description: |
    @write b.txt two
    @fail no
"#;

async fn post(stage: &Stage, verb: &str, body: Value) -> (u16, Value) {
    let (status, answer) = stage.api.post(&format!("/features/f/{verb}"), &body).await;
    (status.as_u16(), answer)
}

async fn operations(stage: &Stage) -> i64 {
    sqlx::query_scalar("select count(*) from tasks where role = 'git'")
        .fetch_one(&stage.world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_feature_is_merged_with_partial_only() {
    let stage = Stage::start().await;
    let base = stage.repository.head("main").unwrap();
    let tasks = json!({"source": "t", "text": TASKS});
    stage.submit(json!({"tasks": tasks})).await;
    stage.ends("blocked").await;

    let (status, answer) = post(&stage, "merge", json!({"how": "merge"})).await;
    assert_eq!(
        (status, &answer["type"]),
        (409, &json!("urn:ralph:problem:unfinished")),
        "{answer}"
    );
    let why = answer["detail"].as_str().unwrap();
    assert!(why.contains("1 of 2 tasks") && why.contains("--partial"), "{why}");
    // Without a terminal, nobody can be asked.
    let refused = output(&stage, "feature merge f").await;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && words.contains("--partial"),
        "{words}"
    );
    assert_eq!(operations(&stage).await, 0);
    assert_eq!(stage.repository.head("main").unwrap(), base);

    stdout_of(&stage, "feature merge f --partial").await;
    stage.ends("blocked").await;
    assert_eq!(stage.repository.file("main", "a.txt").unwrap(), "one\n");

    // The diff shows the whole change although the base has it, also after an update from that base.
    let clone = stage.world.dir().join("clone");
    let cloned = Command::new("git")
        .args(["clone", "-q", "-b", "main"])
        .arg(stage.repository.path())
        .arg(&clone)
        .status();
    assert!(cloned.unwrap().success());
    let diff = async || {
        let mut command = tokio::process::Command::new(ralph_tests::harness::binary("ralph-coordinator"));
        command
            .args(["feature", "diff", "f"])
            .current_dir(&clone)
            .env("HOME", stage.world.dir())
            .env("RALPH_URL", &stage.api.url)
            .env("RALPH_TOKEN", crate::caller::ADMIN);
        let output = command.output().await.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = diff().await;
    assert!(shown.contains("+one") && !shown.contains("b.txt"), "{shown}");
    let (status, answer) = post(&stage, "update", json!({})).await;
    assert_eq!(status, 201, "{answer}");
    stage.ends("blocked").await;
    let shown = diff().await;
    assert!(shown.contains("+one"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_is_refused_now_is_not_done_later() {
    let stage = Stage::start().await;
    let base = stage.repository.head("main").unwrap();
    let tasks = "- {key: a, title: A, description: \"@write a.txt a\\n@done\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("complete").await;
    let more =
        json!({"feature": "f", "title": "Later", "description": "@write l.txt l\n@done", "verify": false});
    let (status, answer) = stage.api.post("/tasks", &more).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let (status, answer) = post(&stage, "merge", json!({"how": "ff", "partial": true})).await;
    let why = answer["detail"].as_str().unwrap_or_default();
    assert!(
        status == 409 && why.contains("`feature run f`"),
        "{status} {answer}"
    );
    assert_eq!(operations(&stage).await, 0);
    stage.run_again().await;
    stage.ends("complete").await;
    assert_eq!(operations(&stage).await, 0);
    assert_eq!(stage.repository.head("main").unwrap(), base);

    // A finished feature is merged at once and needs no consent.
    let (status, answer) = post(&stage, "merge", json!({"how": "ff"})).await;
    assert_eq!(status, 201, "{answer}");
    stage.ends("complete").await;
    assert_eq!(stage.repository.file("main", "l.txt").unwrap(), "l\n");
}

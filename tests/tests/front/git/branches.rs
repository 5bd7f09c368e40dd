//! Operations on branches: merges of a feature, updates from its base, and reverts of landings (DESIGN 6).

use ralph_tests::harness::WorkerOptions;
use serde_json::{Value, json};

use crate::stage::Stage;

/// `a`, and `b` on top of it.
const CHAIN: &str = r#"
- key: a
  title: Do a
  description: |
    @write a.txt a
    @say <learning category="insight" tags="files, letters">The file a.txt holds an a, and nothing but an a.</learning>
    @done
- key: b
  title: Do b
  after: [a]
  description: |
    @run cat a.txt > b.txt
    @done
"#;

fn graph(text: &str) -> Value {
    json!({"text": text, "source": "tasks.yaml"})
}

async fn task(stage: &Stage, key: &str) -> Value {
    let (status, detail) = stage.api.get(&format!("/tasks/f%2F{key}")).await;
    assert_eq!(status.as_u16(), 200, "{detail}");
    detail
}

async fn count(stage: &Stage, query: &'static str) -> i64 {
    sqlx::query_scalar(query)
        .fetch_one(&stage.world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_feature_is_merged_by_the_requested_method() {
    let stage = Stage::start().await;
    let base = stage.repository.head("main").unwrap();
    stage
        .submit(json!({"tasks": graph(CHAIN), "merge": "squash"}))
        .await;
    let over = stage.ends("complete").await;
    assert_eq!(over["feature"]["tasks"]["done"], 3, "{over}");
    let shown = |format: &str| stage.repository.git(&["log", "-1", format, "main"]).unwrap();
    assert_eq!(shown("--format=%P").trim(), base);
    let message = shown("--format=%B");
    assert!(
        message.starts_with("Merge feature f\n\n- Do a\n- Do b\n\nRalph-"),
        "{message}"
    );
    assert_eq!(stage.repository.file("main", "b.txt").unwrap(), "a\n");

    // More work is merged when it is done, and nothing is merged twice.
    let more =
        json!({"feature": "f", "title": "Do c", "description": "@write c.txt c\n@done", "verify": false});
    let (status, answer) = stage.api.post("/tasks", &more).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    stage.run_again().await;
    stage.ends("complete").await;
    assert_eq!(stage.repository.file("main", "c.txt").unwrap(), "c\n");
    let commits = stage
        .repository
        .git(&["rev-list", "--count", &format!("{base}..main")])
        .unwrap();
    assert_eq!(commits.trim(), "2");
    assert_eq!(
        count(&stage, "select count(*) from tasks where role = 'git'").await,
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_from_a_moved_base_allows_the_fast_forward() {
    let stage = Stage::start().await;
    stage.submit(json!({"tasks": graph(CHAIN), "merge": "ff"})).await;
    let moved = stage.repository.commit("main", "else.txt", "else\n").unwrap();
    let over = stage.ends("blocked").await;
    let why = over["attention"][0]["reason"].as_str().unwrap();
    assert!(
        why.contains("`main` has moved on") && why.contains("feature update"),
        "{why}"
    );

    let (status, answer) = stage.api.post("/features/f/update", &json!({})).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    stage.ends("blocked").await;
    let parents = stage
        .repository
        .git(&["log", "-1", "--format=%P", "ralph/f"])
        .unwrap();
    assert!(parents.trim().ends_with(&moved), "{parents}");
    let (_, feature) = stage.api.get("/features/f").await;
    assert_eq!(feature["base_commit"], moved.as_str());

    let merge = task(&stage, "merge-1").await["id"].as_str().unwrap().to_owned();
    let (status, answer) = stage.api.post(&format!("/tasks/{merge}/retry"), &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.ends("complete").await;
    let head = stage.repository.head("ralph/f").unwrap();
    assert_eq!(stage.repository.head("main").unwrap(), head);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_resolves_conflicts_with_the_base() {
    let script = "@if-prompt-has ### Conflict : @expect-pass grep -q '^<<<<<<< ' a.txt\n\
                  @if-prompt-has ### Conflict : @write a.txt both\n@if-prompt-has ### Conflict : @done";
    let mut options = WorkerOptions::named("w");
    options.agent = Some(format!(
        "env RALPH_SCRIPT=\"{script}\" {}",
        ralph_tests::harness::binary("ralph-scripted-agent").display()
    ));
    let stage = Stage::with(&options, &[("a.txt", "begin\n")], "").await;
    stage.submit(json!({"tasks": graph(CHAIN)})).await;
    stage.ends("complete").await;
    let moved = stage.repository.commit("main", "a.txt", "main\n").unwrap();
    let (status, answer) = stage.api.post("/features/f/update", &json!({})).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    stage.ends("complete").await;
    assert_eq!(stage.file("a.txt"), "both");
    let parents = stage
        .repository
        .git(&["log", "-1", "--format=%P", "ralph/f"])
        .unwrap();
    assert!(parents.trim().ends_with(&moved), "{parents}");
    let (_, feature) = stage.api.get("/features/f").await;
    assert_eq!(feature["base_commit"], moved.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_takes_back_a_task_its_dependents_and_their_memory() {
    let stage = Stage::start().await;
    stage.submit(json!({"tasks": graph(CHAIN)})).await;
    stage.ends("complete").await;
    let learned = "select count(*) from learnings where pruned_at is null";
    assert_eq!(count(&stage, learned).await, 1);
    let a = task(&stage, "a").await["id"].as_str().unwrap().to_owned();
    let path = format!("/tasks/{a}/revert");

    let (status, refused) = stage.api.post(&path, &json!({})).await;
    assert_eq!(status.as_u16(), 409, "{refused}");
    let why = refused["detail"].as_str().unwrap();
    assert!(why.contains("Do b") && why.contains("--with-dependents"), "{why}");

    let options = json!({"dependents": true, "redo": true, "reason": "once more"});
    let (status, answer) = stage.api.post(&path, &options).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    assert_eq!(answer["tasks"].as_array().unwrap().len(), 2, "{answer}");
    stage.ends("complete").await;
    // Both were reverted, the later one first, and both landed again.
    let log = stage
        .repository
        .git(&["log", "--reverse", "--format=%s", "ralph/f"])
        .unwrap();
    let log: Vec<_> = log.lines().skip(1).collect();
    assert_eq!(
        log,
        ["Do a", "Do b", "Revert: Do b", "Revert: Do a", "Do a", "Do b"]
    );
    assert_eq!(stage.file("b.txt"), "a");
    for key in ["a", "b"] {
        let task = task(&stage, key).await;
        assert_eq!((&task["status"], &task["attempt"]), (&json!("done"), &json!(2)));
    }
    assert_eq!(
        count(&stage, learned).await,
        1,
        "the first landing's learning is gone, the second's is there"
    );
    let with_reason = "select count(*) from dispatches where feedback = 'once more'";
    assert!(count(&stage, with_reason).await > 0);

    let (_, page) = stage.api.get("/features/f/landings").await;
    let landings: Vec<_> = page["items"].as_array().unwrap().iter().rev().collect();
    let actual: Vec<_> = landings
        .iter()
        .map(|l| (l["title"].as_str().unwrap(), l["reverted"] == true))
        .collect();
    let undone = [
        ("Do a", true),
        ("Do b", true),
        ("Revert: Do b", false),
        ("Revert: Do a", false),
    ];
    assert_eq!(
        actual,
        [&undone[..], &[("Do a", false), ("Do b", false)]].concat()
    );

    // Without `redo`, a reverted task is not done again.
    let b = task(&stage, "b").await["id"].as_str().unwrap().to_owned();
    let (status, answer) = stage.api.post(&format!("/tasks/{b}/revert"), &json!({})).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    stage.ends("complete").await;
    assert_eq!(task(&stage, "b").await["status"], "cancelled");
    let files = stage
        .repository
        .git(&["ls-tree", "--name-only", "ralph/f"])
        .unwrap();
    assert!(files.contains("a.txt") && !files.contains("b.txt"), "{files}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_feature_is_handed_to_the_workers_command() {
    let dir = tempfile::tempdir().unwrap();
    let note = dir.path().join("handed");
    let script = format!(
        "test -f b.txt && echo $RALPH_BRANCH $RALPH_BASE $RALPH_HEAD ${{NATS_URL:-none}} >> {}",
        note.display()
    );
    let config = format!("[workspace]\non_complete = '{script}'\n");
    let stage = Stage::with(&WorkerOptions::named("w"), &[("README.md", "begin\n")], &config).await;
    stage
        .submit(json!({"tasks": graph(CHAIN), "merge": "command"}))
        .await;
    stage.ends("complete").await;
    let head = stage.repository.head("ralph/f").unwrap();
    let actual = std::fs::read_to_string(&note).unwrap();
    assert_eq!(actual, format!("ralph/f main {head} none\n"));
}

/// `a` is reverted while `b` works on top of its landing; `c` has not begun.
#[tokio::test(flavor = "multi_thread")]
async fn work_on_top_of_a_reverted_landing_continues() {
    let mut options = WorkerOptions::named("w");
    options.slots = 2;
    let stage = Stage::with(&options, &[("README.md", "begin\n")], "").await;
    let gate = stage.world.gate("b");
    let text = format!(
        r"
- key: a
  title: Do a
  description: |
    @write a.txt a
    @done
- key: b
  title: Do b
  after: [a]
  description: |
    @effect begun
    @wait-for {0}
    @write b.txt b
    @done
- key: c
  title: Do c
  after: [a, b]
  description: |
    @write c.txt c
    @done
",
        gate.display()
    );
    stage.submit(json!({"tasks": graph(&text)})).await;
    stage.world.effects_of("begun", 1).await.unwrap();
    let a = task(&stage, "a").await["id"].as_str().unwrap().to_owned();
    let options = json!({"redo": true});
    let (status, answer) = stage.api.post(&format!("/tasks/{a}/revert"), &options).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let feature: uuid::Uuid = sqlx::query_scalar("select id from features")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let landed_again = "select count(*) = 1 from tasks t join task_texts x on x.task_id = t.id
                        where t.feature_id = $1 and x.key = 'a' and t.state = 'done' and t.attempt = 2";
    stage.world.until(landed_again, feature).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    stage.ends("complete").await;
    stage
        .world
        .check_counts(ralph_shared::ids::FeatureId(feature))
        .await
        .unwrap();
    let files = stage
        .repository
        .git(&["ls-tree", "--name-only", "ralph/f"])
        .unwrap();
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        ["README.md", "a.txt", "b.txt", "c.txt"]
    );
}

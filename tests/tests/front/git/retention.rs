//! Branches of attempts stay while somebody may need them; a request or the end of the retention removes
//! them.

use std::os::unix::fs::PermissionsExt as _;

use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::flow::maintenance::retention;
use serde_json::{Value, json};

use crate::stage::Stage;

/// One task that lands at its second attempt, one that a person cancels after its attempt, one that a person
/// marks done.
const GRAPH: &str = r#"
- key: lands
  title: Land
  description: |
    @on-attempt 1 @write a.txt half
    @on-attempt 1 @stop max_tokens
    @on-attempt 2 @write a.txt whole
    @done
- key: dropped
  title: Be dropped
  max_retries: 0
  description: |
    @write b.txt b
    @fail broken
- key: kept
  title: Be kept
  max_retries: 0
  description: |
    @write c.txt c
    @fail broken
"#;

async fn command(stage: &Stage, key: &str, verb: &str) {
    let (status, answer) = stage
        .api
        .post(&format!("/tasks/f%2F{key}/{verb}"), &json!({}))
        .await;
    assert_eq!(status.as_u16(), 200, "{answer}");
}

fn branches(stage: &Stage) -> Vec<String> {
    let listed = stage
        .repository
        .git(&["for-each-ref", "--format=%(refname)", "refs/ralph/attempts"])
        .unwrap();
    listed.lines().map(str::to_owned).collect()
}

fn names(list: &Value) -> Vec<String> {
    let mut names: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().or(one["branch"].as_str()).unwrap().to_owned())
        .collect();
    names.sort();
    names
}

async fn prune(stage: &Stage, body: Value) -> Value {
    let (status, answer) = stage.api.post("/features/f/prune", &body).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    answer
}

async fn task(stage: &Stage, key: &str) -> (uuid::Uuid, TaskState) {
    sqlx::query_as("select t.id, t.state from tasks t join task_texts x on x.task_id = t.id where x.key = $1")
        .bind(key)
        .fetch_one(&stage.world.db)
        .await
        .unwrap()
}

async fn feature(stage: &Stage) -> uuid::Uuid {
    sqlx::query_scalar("select id from features")
        .fetch_one(&stage.world.db)
        .await
        .unwrap()
}

/// Waits until no branch of the feature remains to be pruned.
async fn pruned(stage: &Stage) {
    let feature = feature(stage).await;
    let over = "select prune_before is null from features where id = $1";
    stage.world.until(over, feature).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_of_attempts_are_pruned_when_nobody_needs_them() {
    let stage = Stage::start().await;
    stage
        .submit(json!({"tasks": {"text": GRAPH, "source": "tasks.yaml"}}))
        .await;
    stage.ends("blocked").await;
    assert_eq!(task(&stage, "lands").await.1, TaskState::Done);
    command(&stage, "dropped", "cancel").await;
    let of = |id: uuid::Uuid| {
        let id = ralph_shared::ids::TaskId(id).to_string();
        let all = branches(&stage).into_iter();
        all.filter(|branch| branch.contains(&id)).collect::<Vec<_>>()
    };
    let (lands, dropped, kept) = (
        task(&stage, "lands").await.0,
        task(&stage, "dropped").await.0,
        task(&stage, "kept").await.0,
    );
    let mut go = [of(lands), of(dropped)].concat();
    go.sort();
    // Two attempts and a landing, and the attempt that a person cancelled.
    assert_eq!(go.len(), 4, "{go:?}");

    // Nothing is old enough for the default retention, and a dry run changes nothing.
    let plan = prune(&stage, json!({})).await;
    assert_eq!(names(&plan["going"]), Vec::<String>::new());
    let plan = prune(&stage, json!({"older_than_ms": 0, "dry_run": true})).await;
    assert_eq!(names(&plan["going"]), go);
    assert_eq!(names(&plan["staying"]), of(kept));
    pruned(&stage).await;
    assert_eq!(branches(&stage).len(), 5);

    // The remote's refusal is shown, and no branch counts as removed.
    // (`receive.denyDeletes` is about branches alone.)
    let hook = stage.repository.path().join("hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\ncase $3 in *[!0]*) exit 0 ;; esac\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    prune(&stage, json!({"older_than_ms": 0})).await;
    let feature = feature(&stage).await;
    let failed = "select prune_error is not null from features where id = $1";
    stage.world.until(failed, feature).await.unwrap();
    let plan = prune(&stage, json!({"older_than_ms": 0, "dry_run": true})).await;
    let error = plan["error"].as_str().unwrap();
    assert!(error.contains("failed to remove branches of attempts"), "{error}");
    assert_eq!(names(&plan["going"]), go);

    std::fs::remove_file(&hook).unwrap();
    prune(&stage, json!({"older_than_ms": 0})).await;
    pruned(&stage).await;
    assert_eq!(branches(&stage), of(kept));
    let (_, detail) = stage.api.get("/tasks/f%2Flands").await;
    for dispatch in detail["dispatches"].as_array().unwrap() {
        assert_eq!(
            dispatch["pushed_ref"].is_null() && dispatch["kind"] == "work",
            dispatch["pruned_at"].is_null(),
            "{dispatch}"
        );
    }
    assert_eq!(stage.file("a.txt"), "whole");

    // A task that a person marked done without a landing has its work in its branch only.
    command(&stage, "kept", "done").await;
    sqlx::query("update dispatches set settled_at = settled_at - interval '31 days'")
        .execute(&stage.world.db)
        .await
        .unwrap();
    let plan = prune(&stage, json!({"dry_run": true})).await;
    assert_eq!(names(&plan["staying"]), of(kept));
    // The run continued after the decisions.
    stage.ends("complete").await;
    // No branch may be pruned, so no worker is asked.
    let (asked, _) = retention::sweep(&stage.world.db, &stage.world.settings)
        .await
        .unwrap();
    assert_eq!(asked, 0);
    assert_eq!(branches(&stage), of(kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_of_an_ended_feature_are_pruned_after_the_retention() {
    let stage = Stage::start().await;
    let one = "- key: a\n  title: Do a\n  description: |\n    @write a.txt a\n    @done\n";
    stage
        .submit(json!({"tasks": {"text": one, "source": "tasks.yaml"}}))
        .await;
    stage.ends("complete").await;
    let sweep = || retention::sweep(&stage.world.db, &stage.world.settings);
    assert_eq!(sweep().await.unwrap().0, 0);
    assert_eq!(branches(&stage).len(), 2);
    sqlx::query("update dispatches set settled_at = settled_at - interval '31 days'")
        .execute(&stage.world.db)
        .await
        .unwrap();
    let (asked, signals) = sweep().await.unwrap();
    assert_eq!(asked, 1);
    stage.world.bus.emit(signals).await;
    pruned(&stage).await;
    assert_eq!(branches(&stage), Vec::<String>::new());
    assert_eq!(sweep().await.unwrap().0, 0);
    assert_eq!(stage.file("a.txt"), "a");
}

/// A dry run names attempts that are too young.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_explains_why_nothing_is_pruned() {
    let stage = Stage::start().await;
    let one = "- key: a\n  title: Do a\n  description: |\n    @write a.txt a\n    @done\n";
    stage
        .submit(json!({"tasks": {"text": one, "source": "tasks.yaml"}}))
        .await;
    stage.ends("complete").await;
    let text = crate::typed::stdout_of(&stage, "feature prune f --dry-run").await;
    assert!(
        text.contains("2 attempts ended less than") && text.contains("--older-than 0"),
        "{text}"
    );
}

use ralph_tests::harness::{Repository, WorkerOptions, World};
use serde_json::json;

use crate::caller::{Api, ended};

#[tokio::test]
async fn a_person_approves_one_task_and_sends_another_back_with_feedback() {
    let mut world = World::start().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README.md", "begin\n")]).unwrap();
    world.coordinator().await.unwrap();
    let api = Api::start(&world).await;
    let worker = world.worker(&WorkerOptions::named("w")).unwrap();
    let tasks = "- key: a\n  title: Almost right\n  description: |\n    @write a.txt <<END\n    one\n    END\n    @fail I am not sure.\n\
                 - key: b\n  title: Needs a hint\n  description: |\n    @unless-prompt-has Look in the attic : @fail Where is it?\n    \
                 @write b.txt <<END\n    two\n    END\n    @done\n";
    let repo = json!({
        "address": repository.path(),
        "id": "r",
        "base_ref": "main",
        "base_commit": repository.head("main").unwrap(),
    });
    let body = json!({
        "name": "f",
        "tasks": {"source": "tasks.yaml", "text": tasks},
        "repo": repo,
        "max_retries": 0,
        "verify": false,
        "run": {"backoff_ms": 0},
    });
    let (status, answer) = api.post("/features", &body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let blocked = ended(&api, "f").await;
    assert_eq!(
        blocked["feature"]["run"]["outcome"],
        "blocked",
        "{}\n{}",
        world.tell().await,
        worker.output()
    );
    let id = |at: usize| blocked["attention"][at]["id"].as_str().unwrap().to_owned();

    let (status, _) = api
        .post(
            &format!("/tasks/{}/approve", id(0)),
            &json!({"reason": "good enough"}),
        )
        .await;
    assert_eq!(status.as_u16(), 200);
    let (status, again) = api.post(&format!("/tasks/{}/approve", id(0)), &json!({})).await;
    assert_eq!(status.as_u16(), 409, "{again}");
    let (status, sent) = api
        .post(
            &format!("/tasks/{}/retry", id(1)),
            &json!({"reason": "Look in the attic"}),
        )
        .await;
    assert_eq!(status.as_u16(), 200, "{sent}");
    api.post("/features/f/run", &json!({"backoff_ms": 0})).await;

    let over = ended(&api, "f").await;
    assert_eq!(
        over["feature"]["run"]["outcome"],
        "complete",
        "{}",
        world.tell().await
    );
    for (file, text) in [("a.txt", "one"), ("b.txt", "two")] {
        assert_eq!(
            repository
                .git(&["show", &format!("ralph/f:{file}")])
                .unwrap()
                .trim(),
            text
        );
    }
    let (_, log) = api.get(&format!("/tasks/{}/log", id(0))).await;
    assert_eq!(
        (&log["items"][0]["what"], &log["items"][0]["why"]),
        (&json!("approve"), &json!("good enough"))
    );
    api.stop().await;
    drop(worker);
    world.stop().await;
}

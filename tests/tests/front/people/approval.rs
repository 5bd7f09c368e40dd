use ralph_tests::harness::{Repository, WorkerOptions, World};
use serde_json::{Value, json};

use crate::caller::{Api, ended};
use crate::stage::Stage;

#[tokio::test]
async fn a_rejected_task_is_done_again_with_the_persons_words() {
    let stage = Stage::start().await;
    // A plan waits for approval and is rewritten after a rejection; then a session gives up its work.
    let description = "@on-kind plan @on-attempt 1 @say <document>Three tasks.</document>\n\
        @on-kind plan @on-attempt 2 @say <document>One task.</document>\n\
        @on-kind build @say <<GRAPH\n<task-graph>\n- key: a\n  title: A\n  max_retries: 0\n  description: |\n    \
        @on-attempt 1 @fail Where?\n    @write a.txt one\n    @done\n</task-graph>\nGRAPH\n";
    stage
        .submit(
            json!({"description": description, "spec": "Do it.", "approve": ["plan"], "review_rounds": 0}),
        )
        .await;
    let waiting = async || {
        let over = stage.ends("blocked").await;
        over["attention"][0]["id"].as_str().unwrap().to_owned()
    };
    // Prompt of the task's last session.
    let prompt_of =
        async |id: &str| stage.api.get(&format!("/tasks/{id}/prompt")).await.1["body"].to_string();
    let command = async |id: &str, verb: &str, body: Value| {
        let (status, answer) = stage.api.post(&format!("/tasks/{id}/{verb}"), &body).await;
        (
            status.as_u16(),
            answer["detail"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let plan = waiting().await;
    assert_eq!(stage.texts().await["plan"], "Three tasks.");
    let (status, words) = command(&plan, "reject", json!({})).await;
    assert_eq!(status, 422, "{words}");
    assert_eq!(
        command(&plan, "reject", json!({"reason": "Only one task"}))
            .await
            .0,
        200
    );
    let (status, words) = command(&plan, "reject", json!({"reason": "again"})).await;
    assert!(
        status == 409 && words.contains("only a task that waits for a person"),
        "{words}"
    );
    assert_eq!(waiting().await, plan);
    assert_eq!(stage.texts().await["plan"], "One task.");
    assert!(prompt_of(&plan).await.contains("Only one task"));
    assert_eq!(command(&plan, "approve", json!({})).await.0, 200);

    let work = waiting().await;
    assert_ne!(work, plan);
    // Feedback alone starts nothing; a later rejection adds its words.
    assert_eq!(
        command(&work, "feedback", json!({"reason": "In the attic"}))
            .await
            .0,
        200
    );
    assert_eq!(
        command(&work, "reject", json!({"reason": "and quickly"})).await.0,
        200
    );
    stage.ends("complete").await;
    assert_eq!(stage.file("a.txt"), "one");
    let prompt = prompt_of(&work).await;
    assert!(
        prompt.contains("In the attic") && prompt.contains("and quickly"),
        "{prompt}"
    );
    let (status, words) = command(&work, "feedback", json!({"reason": "thanks"})).await;
    assert!(status == 409 && words.contains("is done"), "{words}");
    let (_, log) = stage.api.get(&format!("/tasks/{work}/log")).await;
    let done: Vec<&str> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["what"].as_str().unwrap())
        .collect();
    assert!(done.contains(&"reject") && done.contains(&"feedback"), "{log}");
}

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
    drop(worker);
}

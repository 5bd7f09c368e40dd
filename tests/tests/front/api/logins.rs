//! A repository's address may contain a login: workers get it, readers never see it.

use ralph_tests::harness::World;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::caller::Api;

#[tokio::test]
async fn answers_of_the_api_show_no_login_of_a_repository() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let address = "https://bot:s3cret@host/team/todo.git";
    let feature = json!({
        "name": "todo",
        "draft": true,
        "tasks": {"source": "tasks.yaml", "text": "- {key: a, title: Do a}"},
        "repo": {"address": address, "id": "host/team/todo", "base_ref": "main", "base_commit": "0".repeat(40)},
    });
    let (status, submitted) = api.post("/features", &feature).await;
    assert_eq!(status, StatusCode::CREATED, "{submitted}");
    let mut answers = vec![submitted.to_string()];
    for path in [
        "/features",
        "/features/todo",
        "/features/todo/progress",
        "/tasks/todo%2Fa",
        "/status",
    ] {
        let path = format!("/api/v1{path}");
        let answer = api
            .send(Method::GET, &path, Some("read-token-of-this-test"), None)
            .await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answers.push(answer.text().await.unwrap());
    }
    assert!(
        answers[1].contains("https://host/team/todo.git"),
        "{}",
        answers[1]
    );
    for text in &answers {
        assert!(!text.contains("s3cret") && !text.contains("bot:"), "{text}");
    }
    // Workers log in with it.
    let stored: Option<String> = sqlx::query_scalar("select repo_address from features")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(stored.as_deref(), Some(address));
}

//! The API for callers with only `curl` and the documentation.

use ralph_tests::harness::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};
use crate::stage::Stage;

#[tokio::test]
async fn a_feature_is_submitted_with_an_address_and_a_list_of_tasks() {
    let stage = Stage::start().await;
    let address = stage.repository.path().display().to_string();
    let head = stage.repository.head("main").unwrap();
    let submit = async |name: &str, repo: Value, tasks: Value| {
        let body = json!({"name": name, "draft": true, "repo": repo, "tasks": tasks});
        stage.api.post("/features", &body).await
    };
    let tasks = json!([
        {"key": "a", "title": "Say \u{1f600}", "description": "one\ntwo: \"three\""},
        {"key": "b", "title": "B", "after": ["a"], "priority": 2, "verify": false},
    ]);
    let (status, answer) = submit("listed", json!({"address": address}), tasks.clone()).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    assert_eq!(answer["feature"]["base_commit"], head.trim(), "{answer}");
    assert_eq!(answer["feature"]["base_ref"], "main", "{answer}");
    assert_eq!(answer["tasks"], 2);
    let (_, task) = stage.api.get("/tasks/listed%2Fa").await;
    assert_eq!(
        (&task["title"], &task["description"]),
        (&json!("Say \u{1f600}"), &json!("one\ntwo: \"three\""))
    );
    // The tasks as text, and JSON with the escapes of other programs.
    let (status, answer) = submit(
        "text",
        json!({"address": address, "base_ref": "main"}),
        json!("- {key: a, title: A}"),
    )
    .await;
    assert_eq!((status.as_u16(), &answer["tasks"]), (201, &json!(1)), "{answer}");
    let escaped = format!(
        r#"{{"name": "escaped", "draft": true, "tasks": [{{"key": "a", "title": "Say \ud83d\ude00 {}"}}]}}"#,
        r"\/"
    );
    let answer = stage
        .api
        .send(Method::POST, "/api/v1/features", Some(ADMIN), Some(escaped))
        .await;
    assert_eq!(answer.status().as_u16(), 201, "{}", answer.text().await.unwrap());
    let (_, task) = stage.api.get("/tasks/escaped%2Fa").await;
    assert_eq!(task["title"], "Say \u{1f600} /");

    for (repo, tasks, words) in [
        (
            json!({"address": "/nowhere/at/all"}),
            tasks.clone(),
            "/nowhere/at/all",
        ),
        (
            json!({"address": address, "base_ref": "none"}),
            tasks.clone(),
            "no branch, tag or commit `none`",
        ),
        (
            json!({"address": "ext::sh -c true"}),
            tasks.clone(),
            "repo.address",
        ),
        (json!({"address": "todo"}), tasks.clone(), "neither an address"),
        (
            json!({"address": address, "base_commit": "abc"}),
            tasks.clone(),
            "repo.base_commit",
        ),
        (json!(null), json!([{"key": "a"}]), "title"),
        (
            json!(null),
            json!([{"key": "a", "title": "A", "after": ["z"]}]),
            "`z`",
        ),
    ] {
        let (status, answer) = submit("refused", repo, tasks).await;
        assert!(matches!(status.as_u16(), 400 | 422), "{answer}");
        assert!(answer.to_string().contains(words), "{words}: {answer}");
    }
}

#[tokio::test]
async fn a_body_error_names_the_field_and_no_rust_type() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let check = async |method: Method, path: &str, body: Value, words: &[&str]| {
        let path = format!("/api/v1{path}");
        let answer = api.send(method, &path, Some(ADMIN), Some(body.to_string())).await;
        assert_eq!(answer.status().as_u16(), 400, "{path} {body}");
        let problem: Value = answer.json().await.unwrap();
        let detail = problem["detail"].as_str().unwrap();
        for word in words {
            assert!(detail.contains(word), "{word} in {detail}");
        }
        for rust in [
            "struct ",
            "enum ",
            "variant",
            "i32",
            "u64",
            "sequence",
            "RepoRef",
            "GraphText",
            "usize",
        ] {
            assert!(!detail.contains(rust), "{rust} in {detail}");
        }
    };
    let post = || Method::POST;
    check(post(), "/features", json!({}), &["missing field `name`"]).await;
    check(
        post(),
        "/features",
        json!({"name": "f", "repo": "https://x/y"}),
        &["at `repo`", "expected an object"],
    )
    .await;
    check(
        post(),
        "/features",
        json!({"name": "f", "repo": {}}),
        &["at `repo`", "missing field `address`"],
    )
    .await;
    check(
        post(),
        "/features",
        json!({"name": "f", "max_parallel": "4"}),
        &["at `max_parallel`", "a whole number"],
    )
    .await;
    check(
        post(),
        "/features",
        json!({"name": "f", "run": {"cost": 1}}),
        &["at `run.cost`", "unknown field `cost`"],
    )
    .await;
    check(
        post(),
        "/features",
        json!({"name": "f", "tasks": {"text": 1}}),
        &["a list of tasks"],
    )
    .await;
    check(post(), "/features", json!([1]), &["JSON"]).await;
    check(
        post(),
        "/features",
        json!({"name": "f", "failure_policy": "x"}),
        &["at `failure_policy`", "`continue`"],
    )
    .await;
    check(
        post(),
        "/tasks/t-1/deps",
        json!({"blockers": "t-2"}),
        &["at `blockers`", "a list"],
    )
    .await;
    check(
        post(),
        "/tokens",
        json!({"name": "n", "role": "king"}),
        &["at `role`", "`admin`"],
    )
    .await;
    check(
        Method::PUT,
        "/budgets/day",
        json!({"tokens": "many"}),
        &["at `tokens`", "a whole number"],
    )
    .await;
}

#[tokio::test]
async fn the_examples_of_the_openapi_document_match_its_schemas() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let document: Value = api
        .send(Method::GET, "/api/openapi.json", None, None)
        .await
        .json()
        .await
        .unwrap();
    let check = |at: &str, content: &Value| {
        let schema = json!({"allOf": [content["schema"]], "components": document["components"]});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&content["example"])
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{at}: {errors:#?}");
    };
    let mut seen = 0;
    for part in ["paths", "webhooks"] {
        for (path, item) in document[part].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let content = &operation["requestBody"]["content"]["application/json"];
                if !content.is_null() {
                    check(&format!("{method} {path}"), content);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 30, "{seen}");
    let page = api
        .send(Method::GET, "/api/docs", None, None)
        .await
        .text()
        .await
        .unwrap();
    assert!(page.contains("curl -X POST") && page.contains("git@github.com:team/todo.git"));
}

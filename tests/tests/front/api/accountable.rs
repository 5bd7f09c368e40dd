//! Every recorded change names the token that asked for it.

use ralph_tests::harness::{World, binary};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::caller::{ADMIN, Api};

const SUBMIT: &str = "submit-token-of-this-test";

/// Sends a request with this token; it must succeed.
async fn done(api: &Api, token: &str, method: Method, path: &str, body: Value) -> Value {
    let path = format!("/api/v1{path}");
    let response = api
        .send(method.clone(), &path, Some(token), Some(body.to_string()))
        .await;
    let status = response.status();
    let answer: Value = response.json().await.unwrap();
    assert!(status.is_success(), "{method} {path}: {status} {answer}");
    answer
}

/// `ACTOR CHANGE` of each entry.
async fn log(api: &Api, path: &str) -> Vec<String> {
    let (status, page) = api.get(path).await;
    assert_eq!(status, 200, "{page}");
    let entries = page["items"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| {
            format!(
                "{} {}",
                entry["actor"].as_str().unwrap(),
                entry["what"].as_str().unwrap()
            )
        })
        .collect()
}

#[tokio::test]
async fn every_change_is_logged_under_the_name_of_its_token() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = json!({"source": "t", "text": "[{key: a, title: A}, {key: b, title: B}]"});
    let feature = json!({"name": "f", "draft": true, "tasks": tasks});
    let at = |name: &str| name.to_owned();
    let steps = [
        (SUBMIT, Method::POST, at("/features"), feature, "submit feature f"),
        (
            SUBMIT,
            Method::PATCH,
            at("/features/f"),
            json!({"max_parallel": 3}),
            "edit feature f",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/features/f/run"),
            json!({}),
            "run feature f",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/features/f/pause"),
            json!({}),
            "pause feature f",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/features/f/resume"),
            json!({}),
            "resume feature f",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/tasks/f%2Fa/skip"),
            json!({"reason": "no need"}),
            "skip task f/a",
        ),
        (
            SUBMIT,
            Method::PATCH,
            at("/tasks/f%2Fb"),
            json!({"title": "C"}),
            "edit task f/b",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/tasks"),
            json!({"title": "D", "key": "d", "feature": "f"}),
            "submit task f/d",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/tasks/f%2Fd/deps"),
            json!({"blockers": ["f/b"]}),
            "add blockers task f/d",
        ),
        (
            SUBMIT,
            Method::DELETE,
            at("/tasks/f%2Fd/deps/f%2Fb"),
            json!({}),
            "remove blocker f/b task f/d",
        ),
        (
            ADMIN,
            Method::DELETE,
            at("/tasks/f%2Fd"),
            json!({}),
            "delete task f/d",
        ),
        (
            SUBMIT,
            Method::PUT,
            at("/features/f/schedule"),
            json!({"cron": "0 3 * * *"}),
            "set schedule feature f",
        ),
        (
            SUBMIT,
            Method::PATCH,
            at("/features/f/schedule"),
            json!({"paused": true}),
            "pause schedule feature f",
        ),
        (
            SUBMIT,
            Method::DELETE,
            at("/features/f/schedule"),
            json!({}),
            "remove schedule feature f",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/memory"),
            json!({"kind": "learning", "repo": "r", "title": "T", "body": "B"}),
            "add entry T",
        ),
        (
            ADMIN,
            Method::PUT,
            at("/budgets/day"),
            json!({"cost_usd": 50.0}),
            "set budget day",
        ),
        (
            ADMIN,
            Method::POST,
            at("/tokens"),
            json!({"name": "alice", "role": "read"}),
            "create token alice",
        ),
        (
            ADMIN,
            Method::DELETE,
            at("/tokens/alice"),
            json!({}),
            "revoke token alice",
        ),
        (
            ADMIN,
            Method::POST,
            at("/hooks"),
            json!({"name": "h", "feature": "f"}),
            "create hook h",
        ),
        (ADMIN, Method::DELETE, at("/hooks/h"), json!({}), "remove hook h"),
        (
            SUBMIT,
            Method::POST,
            at("/features/f/stop"),
            json!({}),
            "stop feature f",
        ),
        (
            SUBMIT,
            Method::POST,
            at("/features/f/cancel"),
            json!({}),
            "cancel feature f",
        ),
        (
            ADMIN,
            Method::DELETE,
            at("/features/f"),
            json!({}),
            "delete feature f",
        ),
    ];
    let mut expected = Vec::new();
    let mut id = String::new();
    for (token, method, path, body, what) in steps {
        if path == "/features/f" && method == Method::DELETE {
            assert_eq!(
                log(&api, "/tasks/f%2Fa/log").await,
                ["submit skip"],
                "the log of a task names the token too"
            );
            let of_feature = log(&api, "/features/f/log").await;
            assert!(of_feature.contains(&"submit pause".to_owned()), "{of_feature:?}");
            assert!(
                of_feature.contains(&"submit skip task f/a".to_owned()),
                "{of_feature:?}"
            );
            assert!(
                !of_feature.iter().any(|entry| entry.contains("token")),
                "{of_feature:?}"
            );
            let shown = Command::new(binary("ralph-coordinator"))
                .args(["feature", "log", &id])
                .env("RALPH_URL", &api.url)
                .env("RALPH_TOKEN", ADMIN)
                .output()
                .await
                .unwrap();
            let shown = String::from_utf8(shown.stdout).unwrap();
            assert!(
                shown.contains("submit  pause") && shown.contains("reason: no need"),
                "{shown}"
            );
        }
        let answer = done(&api, token, method, &path, body).await;
        if path == "/features" {
            id = answer["feature"]["id"].as_str().unwrap().to_owned();
        }
        expected.push(format!(
            "{} {what}",
            if token == ADMIN { "admin" } else { "submit" }
        ));
    }
    assert_eq!(log(&api, "/changes").await, expected);
}

#[tokio::test]
async fn only_successful_changes_are_logged_and_a_repeat_is_logged_once() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let before = log(&api, "/changes").await.len();
    for (path, body) in [
        ("/features/nowhere/pause", json!({})),
        ("/features/f/resume", json!({})),
        ("/tasks/f%2Fa/reject", json!({})),
        ("/memory/search", json!({"repo": "r", "queries": ["x"]})),
    ] {
        api.post(path, &body).await;
    }
    assert_eq!(log(&api, "/changes").await.len(), before);
    let pause = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..2 {
        let path = format!("{}/api/v1/features/f/pause", api.url);
        let request = pause.post(path).bearer_auth(ADMIN).header("Idempotency-Key", "k");
        assert!(request.send().await.unwrap().status().is_success());
    }
    let log = log(&api, "/changes").await;
    assert_eq!(log[before..], ["admin pause feature f"]);
}

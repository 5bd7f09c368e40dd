use std::collections::BTreeMap;

use futures::StreamExt as _;
use ralph_tests::harness::World;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};

#[tokio::test]
async fn a_request_needs_a_token_with_a_fitting_role() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let check = async |method: Method, path: &str, token: Option<&str>, expected: u16| {
        let response = api.send(method.clone(), path, token, Some("{}".into())).await;
        assert_eq!(response.status().as_u16(), expected, "{method} {path} {token:?}");
        if expected >= 400 {
            let kind = response
                .headers()
                .get("content-type")
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            assert_eq!(kind, "application/problem+json", "{method} {path}");
            let problem: Value = response.json().await.unwrap();
            assert_eq!(problem["status"], expected, "{problem}");
            assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
        }
    };
    let (read, submit) = (Some("read-token-of-this-test"), Some("submit-token-of-this-test"));
    check(Method::GET, "/healthz", None, 200).await;
    check(Method::GET, "/readyz", None, 200).await;
    for token in [None, Some("unknown")] {
        check(Method::GET, "/api/v1/status", token, 401).await;
        check(Method::POST, "/api/v1/features", token, 401).await;
    }
    check(Method::GET, "/api/v1/status", read, 200).await;
    check(Method::POST, "/api/v1/features", read, 403).await;
    check(Method::POST, "/api/v1/features", submit, 400).await;
    check(Method::POST, "/api/v1/workers/nobody/drain", submit, 403).await;
    check(Method::POST, "/api/v1/workers/nobody/drain", Some(ADMIN), 404).await;

    check(Method::GET, "/elsewhere", Some(ADMIN), 404).await;
    check(Method::DELETE, "/api/v1/status", Some(ADMIN), 405).await;
    check(Method::GET, "/api/v1/tasks/t-0123", Some(ADMIN), 404).await;
    check(Method::GET, "/api/v1/tasks/nonsense", Some(ADMIN), 400).await;
    check(Method::GET, "/api/v1/features?limit=0", Some(ADMIN), 400).await;
    check(Method::GET, "/api/v1/features?limit=x", Some(ADMIN), 400).await;
    check(Method::GET, "/api/v1/features?cursor=x", Some(ADMIN), 400).await;
    check(Method::GET, "/api/v1/features?status=asleep", Some(ADMIN), 400).await;
    let huge = format!(r#"{{"name": "{}"}}"#, "x".repeat(64 * 1024 * 1024));
    let response = api
        .send(Method::POST, "/api/v1/features", Some(ADMIN), Some(huge))
        .await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    // The bound for queries is lower.
    let long = " ".repeat(8 * 1024 * 1024 + 1);
    let response = api
        .send(Method::POST, "/api/v1/memory/search", read, Some(long))
        .await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["detail"], "send at most 8 MB");
}

#[tokio::test]
async fn a_wrong_submission_gets_its_errors_and_stores_nothing() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let refused = async |body: Value, status: u16, words: &str| {
        let (got, problem) = api.post("/features", &body).await;
        assert_eq!(got.as_u16(), status, "{problem}");
        assert!(problem.to_string().contains(words), "{words}: {problem}");
    };
    let tasks = json!({"source": "t.yaml", "text": "- {key: a, title: A}"});
    let text = "- {key: a, title: A, after: [b]}\n- {key: a, title: ''}\n";
    let (status, problem) = api
        .post(
            "/features",
            &json!({"name": "x", "tasks": {"source": "t.yaml", "text": text}}),
        )
        .await;
    assert_eq!(status.as_u16(), 422);
    let errors: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e.as_str().unwrap())
        .collect();
    assert!(
        errors.len() >= 3 && errors.iter().all(|e| e.starts_with("t.yaml:")),
        "{errors:?}"
    );

    refused(json!({"name": "Not A Name", "tasks": tasks}), 400, "a-z").await;
    refused(json!({"name": "x"}), 422, "--tasks").await;
    refused(json!({"name": "x", "tasks": tasks, "colour": 1}), 400, "colour").await;
    refused(
        json!({"name": "x", "tasks": tasks, "max_parallel": 0}),
        400,
        "max_parallel",
    )
    .await;
    refused(
        json!({"name": "x", "tasks": tasks, "max_retries": -1}),
        400,
        "max_retries",
    )
    .await;
    refused(json!({"name": "x", "tasks": tasks, "pool": "A B"}), 400, "pool").await;
    refused(
        json!({"name": "x", "tasks": tasks, "run": {"iterations": -1}}),
        400,
        "iterations",
    )
    .await;
    refused(
        json!({"name": "x", "tasks": tasks, "run": {"model_strategy": "best"}}),
        400,
        "escalate",
    )
    .await;
    let repo = |address: &str, commit: &str, branch: &str| json!({"address": address, "id": "r", "base_ref": "main", "base_commit": commit, "branch": branch});
    let commit = "0123456789".repeat(4);
    for (repo, status, words) in [
        (repo("/r", "abc", "b"), 400, "base_commit"),
        (repo("--upload-pack=x", &commit, "b"), 400, "address"),
        (repo("/r", &commit, "a..b"), 422, "branch"),
    ] {
        refused(json!({"name": "x", "tasks": tasks, "repo": repo}), status, words).await;
    }
    let (_, page) = api.get("/features").await;
    assert_eq!(page, json!({"items": [], "next": null}));

    api.submit("x", "- {key: a, title: A}").await;
    refused(json!({"name": "x", "tasks": tasks}), 409, "feature show x").await;
}

#[tokio::test]
async fn lists_are_paged_and_id_prefixes_find_tasks() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    for name in ["one", "two", "three"] {
        api.submit(name, "- {key: a, title: A}\n- {key: b, title: B, after: [a]}")
            .await;
    }
    let (_, first) = api.get("/features?limit=2").await;
    let (_, second) = api
        .get(&format!(
            "/features?limit=2&cursor={}",
            first["next"].as_str().unwrap()
        ))
        .await;
    let names = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (names(&first), names(&second)),
        (vec!["three".into(), "two".into()], vec!["one".into()])
    );
    assert_eq!(second["next"], Value::Null);

    let (_, tasks) = api.get("/features/two/tasks").await;
    let tasks = tasks["items"].as_array().unwrap();
    let shown: BTreeMap<&str, &str> = tasks
        .iter()
        .map(|t| (t["key"].as_str().unwrap(), t["status"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, BTreeMap::from([("a", "pending"), ("b", "blocked")]));
    let (_, blocked) = api.get("/features/two/tasks?status=blocked").await;
    assert_eq!(blocked["items"].as_array().unwrap().len(), 1);

    let id = tasks[0]["id"].as_str().unwrap();
    let (status, shown) = api.get(&format!("/tasks/{id}")).await;
    assert_eq!(
        (status.as_u16(), &shown["dependents"][0]["title"]),
        (200, &json!("B"))
    );
    let (status, problem) = api.get("/tasks/t-").await;
    assert_eq!(status.as_u16(), 400, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().ends_with("or FEATURE/KEY"),
        "{problem}"
    );
    // Every prefix finds the task or, if it is ambiguous, names the candidates.
    for length in 3..id.len() {
        let (status, found) = api.get(&format!("/tasks/{}", &id[..length])).await;
        match status.as_u16() {
            200 => assert_eq!(found["id"], id),
            409 => assert!(found["detail"].as_str().unwrap().contains(id), "{found}"),
            other => panic!("{other}: {found}"),
        }
    }
    let (_, runs) = api.get("/runs?feature=two").await;
    let run = runs["items"][0]["id"].as_str().unwrap();
    let (_, shown) = api.get(&format!("/runs/{run}")).await;
    assert_eq!(
        (&shown["limits"]["iterations"], &shown["outcome"]),
        (&json!(30), &Value::Null)
    );
    let (_, status) = api.get("/status").await;
    assert_eq!(status["features"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_task_joins_a_running_feature_unless_it_makes_a_cycle() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit(
        "f",
        "- {key: p, title: P}\n- {key: q, title: Q}\n- {key: x, title: X, after: [p]}",
    )
    .await;
    let (_, page) = api.get("/features/f/tasks").await;
    let id = |key: &str| {
        let items = page["items"].as_array().unwrap();
        let task = items.iter().find(|t| t["key"] == key).unwrap();
        task["id"].as_str().unwrap().to_owned()
    };

    let (status, added) = api
        .post(
            "/tasks",
            &json!({"title": "N", "feature": "f", "after": [id("q")]}),
        )
        .await;
    assert_eq!(status.as_u16(), 201, "{added}");
    assert_eq!(added["feature"]["tasks"]["total"], 4);
    let (_, shown) = api
        .get(&format!("/tasks/{}", added["task"].as_str().unwrap()))
        .await;
    assert_eq!(
        (&shown["status"], &shown["blockers"][0]["title"]),
        (&json!("blocked"), &json!("Q"))
    );

    // X waits for P, so a part of P can't wait for X.
    let circle = json!({"title": "C", "feature": "f", "parent": id("p"), "after": [id("x")]});
    let (status, problem) = api.post("/tasks", &circle).await;
    assert_eq!(status.as_u16(), 409, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains("circle"),
        "{problem}"
    );
    let (status, part) = api
        .post(
            "/tasks",
            &json!({"title": "Part", "feature": "f", "parent": id("p")}),
        )
        .await;
    assert_eq!(status.as_u16(), 201, "{part}");
    let (_, tree) = api.get(&format!("/tasks/{}/tree", id("p"))).await;
    let titles: Vec<&str> = tree["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["P", "Part"]);

    let (status, problem) = api
        .post("/tasks", &json!({"title": "E", "parent": id("p")}))
        .await;
    assert_eq!((status.as_u16(), problem["status"].as_u64()), (422, Some(422)));
    let (status, alone) = api.post("/tasks", &json!({"title": "Fix the login"})).await;
    assert_eq!(status.as_u16(), 201, "{alone}");
    assert!(
        alone["feature"]["name"]
            .as_str()
            .unwrap()
            .starts_with("fix-the-login-"),
        "{alone}"
    );
}

#[tokio::test]
async fn a_watcher_sees_the_current_state_each_change_and_the_end() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}\n- {key: b, title: B, after: [a]}")
        .await;
    let (_, page) = api.get("/features/f/tasks").await;
    let ids: Vec<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["id"].as_str().unwrap().to_owned())
        .collect();

    let response = api
        .send(Method::GET, "/api/v1/features/f/events", Some(ADMIN), None)
        .await;
    let mut bytes = response.bytes_stream();
    let mut text = String::new();
    let mut next = async || loop {
        if let Some((event, rest)) = text.split_once("\n\n") {
            let data = event
                .lines()
                .find_map(|line| line.strip_prefix("data: "))
                .map(str::to_owned);
            text = rest.to_owned();
            if let Some(data) = data {
                return Some(serde_json::from_str::<Value>(&data).unwrap());
            }
            continue;
        }
        text.push_str(std::str::from_utf8(&bytes.next().await?.unwrap()).unwrap());
    };
    let first = next().await.unwrap();
    assert_eq!(
        (&first["feature"]["tasks"]["total"], &first["feature"]["status"]),
        (&json!(2), &json!("running"))
    );

    let (status, done) = api
        .post(&format!("/tasks/{}/skip", ids[0]), &json!({"reason": "by hand"}))
        .await;
    assert_eq!((status.as_u16(), &done["count"]), (200, &json!(1)));
    let mut event = next().await.unwrap();
    while event["feature"]["tasks"]["skipped"] == 0 {
        event = next().await.unwrap();
    }
    assert_eq!(event["feature"]["tasks"]["pending"], 1);
    let (_, log) = api.get(&format!("/tasks/{}/log", ids[0])).await;
    assert_eq!(
        (&log["items"][0]["what"], &log["items"][0]["why"]),
        (&json!("skip"), &json!("by hand"))
    );
    let (status, problem) = api.post(&format!("/tasks/{}/skip", ids[0]), &json!({})).await;
    assert_eq!(status.as_u16(), 409, "{problem}");

    api.post(&format!("/tasks/{}/done", ids[1]), &json!({})).await;
    let mut last = event;
    while let Some(event) = next().await {
        last = event;
    }
    assert_eq!(
        last["feature"]["run"]["outcome"], "complete",
        "the stream ends with the run"
    );
}

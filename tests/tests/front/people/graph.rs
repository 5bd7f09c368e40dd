//! Edits of an existing feature's graph: edges and tasks are added and removed, and impossible edits are
//! refused.

use std::collections::BTreeMap;

use ralph_tests::harness::{Stub, World};
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};
use crate::invariants;

/// The ids and states of a feature's tasks, by key.
async fn tasks(api: &Api, feature: &str) -> BTreeMap<String, (String, String)> {
    let (_, page) = api.get(&format!("/features/{feature}/tasks")).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|task| (text(&task["key"]), (text(&task["id"]), text(&task["status"]))))
        .collect()
}

async fn states(api: &Api, feature: &str) -> String {
    let all = tasks(api, feature).await;
    let words: Vec<String> = all
        .iter()
        .map(|(key, (_, state))| format!("{key} {state}"))
        .collect();
    words.join(", ")
}

async fn delete(api: &Api, path: &str) -> (u16, Value) {
    let path = format!("/api/v1{path}");
    let response = api.send(Method::DELETE, &path, Some(ADMIN), None).await;
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn wait_for(api: &Api, task: &str, blockers: &[&str]) -> (u16, Value) {
    let path = format!("/tasks/{}/deps", task.replace('/', "%2F"));
    let (status, answer) = api.post(&path, &json!({"blockers": blockers})).await;
    (status.as_u16(), answer)
}

fn assert_error(answer: &(u16, Value), status: u16, words: &[&str]) {
    assert_eq!(answer.0, status, "{answer:?}");
    let detail = answer.1["detail"].as_str().unwrap();
    for word in words {
        assert!(detail.contains(word), "{word}: {detail}");
    }
}

#[tokio::test]
async fn edges_in_a_running_feature_block_and_release_its_tasks() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let graph = "- {key: x, title: X}\n- {key: y, title: Y}\n- {key: p, title: P}\n- {key: c, title: C, parent: p}\n\
                 - {key: d, title: D, parent: p, after: [c]}\n";
    api.submit("f", graph).await;
    let begin = "c pending, d blocked, p pending, x pending, y pending";
    assert_eq!(states(&api, "f").await, begin);

    let (status, done) = wait_for(&api, "f/p", &["f/x", "f/y"]).await;
    assert_eq!((status, &done["count"]), (200, &json!(2)), "{done}");
    assert_eq!(
        states(&api, "f").await,
        "c blocked, d blocked, p blocked, x pending, y pending"
    );
    invariants::check(&world.db).await.unwrap();
    // The same edge again changes nothing.
    assert_eq!(wait_for(&api, "f/p", &["f/x"]).await.1["count"], 0);

    for blocker in ["f%2Fx", "f%2Fy", "f%2Fy"] {
        let (status, _) = delete(&api, &format!("/tasks/f%2Fp/deps/{blocker}")).await;
        assert_eq!(status, 200);
        invariants::check(&world.db).await.unwrap();
    }
    assert_eq!(states(&api, "f").await, begin);
    let (_, log) = api.get("/tasks/f%2Fp/log").await;
    let what: Vec<&str> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["what"].as_str().unwrap())
        .collect();
    assert_eq!(
        what,
        ["wait for", "wait for", "no longer wait for", "no longer wait for"]
    );
}

#[tokio::test]
async fn an_impossible_edge_is_refused_and_a_cycle_is_named() {
    let mut world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let graph = "- {key: a, title: First}\n- {key: b, title: Second, after: [a]}\n- {key: c, title: Third, after: [b]}\n\
                 - {key: p, title: Whole}\n- {key: q, title: Part, parent: p}\n- {key: z, title: Z}\n";
    api.submit("f", graph).await;
    api.submit("g", "- {key: a, title: A}").await;
    let all = tasks(&api, "f").await;
    let id = |key: &str| all[key].0.as_str();

    let circle = wait_for(&api, "f/a", &["f/z", "f/c"]).await;
    let cycle = format!(
        "{a} `First` waits for {c} `Third` waits for {b} `Second` waits for {a} `First`",
        a = id("a"),
        b = id("b"),
        c = id("c")
    );
    assert_error(&circle, 409, &["circle", &cycle]);
    // All or none: the edge to Z isn't there either.
    assert_eq!(tasks(&api, "f").await["a"].1, "pending");
    assert_error(
        &wait_for(&api, "f/q", &["f/p"]).await,
        409,
        &["circle", id("p"), "`Whole`"],
    );
    assert_error(
        &wait_for(&api, "f/p", &["f/q"]).await,
        409,
        &["circle", id("q"), "`Part`"],
    );
    assert_error(&wait_for(&api, "f/a", &["f/a"]).await, 409, &["itself"]);
    assert_error(&wait_for(&api, "f/a", &["g/a"]).await, 409, &["another feature"]);
    assert_eq!(wait_for(&api, "f/a", &["f/nothing"]).await.0, 404);
    let (status, _) = api.post("/tasks/f%2Fz/done", &json!({})).await;
    assert_eq!(status.as_u16(), 200);
    assert_error(&wait_for(&api, "f/z", &["f/a"]).await, 409, &["done already"]);
    invariants::check(&world.db).await.unwrap();

    world.coordinator().await.unwrap();
    let worker = Stub::hello(&world, "stub").await.unwrap();
    api.submit("h", "- {key: s, title: S, pool: stub}\n- {key: t, title: T}")
        .await;
    worker.claim().await.unwrap();
    let running = wait_for(&api, "h/s", &["h/t"]).await;
    assert_error(&running, 409, &["in progress", "task release"]);
    assert_error(
        &delete(&api, "/tasks/h%2Fs").await,
        409,
        &["in progress", "task release"],
    );
}

#[tokio::test]
async fn a_deleted_task_releases_the_tasks_that_wait_for_it() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let graph = "- {key: a, title: A}\n- {key: b, title: B, after: [a]}\n- {key: p, title: P}\n- {key: c, title: C, parent: p}\n\
                 - {key: d, title: D, parent: p}\n- {key: e, title: E, after: [p]}\n";
    api.submit("f", graph).await;
    assert_error(&delete(&api, "/tasks/f%2Fp").await, 409, &["subtasks"]);
    assert_eq!(delete(&api, "/tasks/f%2Fa").await.0, 200);
    assert_eq!(delete(&api, "/tasks/f%2Fa").await.0, 404);
    invariants::check(&world.db).await.unwrap();
    assert_eq!(
        states(&api, "f").await,
        "b pending, c pending, d pending, e blocked, p pending"
    );

    let (status, _) = api.post("/tasks/f%2Fc/done", &json!({})).await;
    assert_eq!(status.as_u16(), 200);
    assert_eq!(delete(&api, "/tasks/f%2Fd").await.0, 200);
    invariants::check(&world.db).await.unwrap();
    assert_eq!(states(&api, "f").await, "b pending, c done, e pending, p done");
    for key in ["b", "c", "e"] {
        let (status, answer) = delete(&api, &format!("/tasks/f%2F{key}")).await;
        assert_eq!(status, 200, "{key}: {answer}");
        invariants::check(&world.db).await.unwrap();
    }
    let (_, progress) = api.get("/features/f/progress").await;
    assert_eq!(progress["feature"]["run"]["outcome"], "complete", "{progress}");
    let read = api
        .send(
            Method::DELETE,
            "/api/v1/tasks/f%2Fp",
            Some("submit-token-of-this-test"),
            None,
        )
        .await;
    assert_eq!(read.status().as_u16(), 403, "a deletion needs the role `admin`");
}

#[tokio::test]
async fn an_edit_of_an_outdated_description_is_refused() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A, description: old}").await;
    let edit = async |description: &str, before: &str| {
        let body = json!({"description": description, "before": before}).to_string();
        let response = api
            .send(Method::PATCH, "/api/v1/tasks/f%2Fa", Some(ADMIN), Some(body))
            .await;
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    assert_eq!(edit("mine", "old").await.0, 200);
    assert_error(
        &edit("theirs", "old").await,
        409,
        &["somebody else", "nothing was stored"],
    );
    let (_, shown) = api.get("/tasks/f%2Fa").await;
    assert_eq!(shown["description"], "mine");
}

#[tokio::test]
async fn a_person_starts_the_build_and_the_review_of_a_feature() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (status, _) = api
        .post(
            "/features",
            &json!({"name": "planned", "plan": "Do it.", "draft": true}),
        )
        .await;
    assert_eq!(status.as_u16(), 201);
    let (status, started) = api.post("/features/planned/build", &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{started}");
    assert_eq!(states(&api, "planned").await, "build pending");
    let (status, again) = api.post("/features/planned/build", &json!({})).await;
    assert_error(&(status.as_u16(), again), 409, &["running"]);
    for (command, state) in [("cancel", "cancelled"), ("skip", "skipped")] {
        let path = format!("/tasks/planned%2Fbuild/{command}");
        let (status, answer) = api.post(&path, &json!({})).await;
        assert_eq!(status.as_u16(), 200, "{answer}");
        let (status, answer) = api.post("/features/planned/build", &json!({})).await;
        assert_error(&(status.as_u16(), answer), 409, &[state, "task retry"]);
    }

    api.submit("f", "- {key: a, title: A}").await;
    let refused = async |verb: &str, words: &[&str]| {
        let (status, answer) = api.post(&format!("/features/f/{verb}"), &json!({})).await;
        assert_error(&(status.as_u16(), answer), 409, words);
    };
    refused("build", &["has its tasks already", "task create"]).await;
    refused("review", &["running"]).await;
    api.post("/tasks/f%2Fa/done", &json!({})).await;
    let (status, started) = api.post("/features/f/review", &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{started}");
    assert_eq!(states(&api, "f").await, "a done, review-1 pending");
    invariants::check(&world.db).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_is_read_in_pages_and_a_limit_is_reported() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = "- {key: p, title: P}\n- {key: a, title: A, parent: p}\n- {key: b, title: B, parent: p}\n- {key: c, title: C, \
                 parent: a}\n- {key: z, title: Z}";
    api.submit("f", tasks).await;
    let (_, whole) = api.get("/tasks/f%2Fp").await;
    let id = whole["id"].as_str().unwrap();
    let (mut titles, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let (status, page) = api.get(&format!("/tasks/{id}/tree?limit=3{cursor}")).await;
        assert_eq!(status.as_u16(), 200, "{page}");
        let items = page["items"].as_array().unwrap();
        titles.extend(
            items
                .iter()
                .map(|task| task["title"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    titles.sort();
    assert_eq!((titles.join(""), pages), ("ABCP".to_owned(), 2));

    let tree = |id: &str, limit: &str| {
        let output = std::process::Command::new(ralph_tests::harness::binary("ralph-coordinator"))
            .args(["task", "tree", id, "--limit", limit, "--no-pager"])
            .current_dir(world.dir())
            .env("RALPH_URL", &api.url)
            .env("RALPH_TOKEN", crate::caller::ADMIN)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout).lines().count(), text(output.stderr))
    };
    let (lines, stderr) = tree(id, "2");
    assert!(
        lines == 2 && stderr.contains("these are the first 2 tasks"),
        "{lines} {stderr}"
    );
    for of in [id, "f/p"] {
        let (lines, stderr) = tree(of, "4");
        assert!(lines == 4 && stderr.is_empty(), "{of}: {lines} {stderr}");
    }
}

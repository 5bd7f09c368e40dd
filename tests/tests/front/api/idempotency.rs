//! Requests with an idempotency key are executed once, however often they come.

use futures::future::join_all;
use ralph_tests::harness::{World, binary};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::caller::{ADMIN, Api};

async fn post(api: &Api, path: &str, key: &str, body: &Value) -> Response {
    post_as(ADMIN, api, path, key, body).await
}

async fn post_as(token: &str, api: &Api, path: &str, key: &str, body: &Value) -> Response {
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    request
        .post(format!("{}/api/v1{path}", api.url))
        .bearer_auth(token)
        .header("Idempotency-Key", key)
        .body(body.to_string())
        .send()
        .await
        .unwrap()
}

fn replayed(response: &Response) -> bool {
    response
        .headers()
        .get("idempotency-replayed")
        .is_some_and(|value| value == "true")
}

async fn count(world: &World, table: &str) -> i64 {
    let query = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
    sqlx::query_scalar(query).fetch_one(&world.db).await.unwrap()
}

/// Numbers of tasks, features, knowledge entries and tokens.
async fn row_counts(world: &World) -> [i64; 4] {
    let mut counts = [0; 4];
    for (n, table) in ["tasks", "features", "knowledge", "api_tokens"]
        .into_iter()
        .enumerate()
    {
        counts[n] = count(world, table).await;
    }
    counts
}

/// Makes each key look as if its coordinator died after the work and before it stored the answer, and its
/// claim lapsed.
async fn forget_answers(world: &World) {
    sqlx::query(
        "update idempotency_keys
         set status = null, sealed_body = null, held_until = now() - interval '1 second'",
    )
    .execute(&world.db)
    .await
    .unwrap();
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_and_runs_once() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let body = json!({"title": "Fix the login"});
    let first = post(&api, "/tasks", "k1", &body).await;
    assert_eq!((first.status().as_u16(), replayed(&first)), (201, false));
    let first: Value = first.json().await.unwrap();

    // Another coordinator knows the key too.
    let api = Api::start(&world).await;
    let second = post(&api, "/tasks", "k1", &body).await;
    assert_eq!((second.status().as_u16(), replayed(&second)), (201, true));
    assert_eq!(second.json::<Value>().await.unwrap(), first);
    assert_eq!(count(&world, "tasks").await, 1);

    let other = post(&api, "/tasks", "k1", &json!({"title": "Another"})).await;
    let status = other.status().as_u16();
    let problem: Value = other.json().await.unwrap();
    assert_eq!(
        (status, &problem["type"]),
        (422, &json!("urn:ralph:problem:key-reused"))
    );
    let elsewhere = post(&api, "/features", "k1", &body).await;
    assert_eq!(elsewhere.status().as_u16(), 422, "the address counts as well");
    for wrong in ["", "a b", &"x".repeat(256)] {
        assert_eq!(
            post(&api, "/tasks", wrong, &body).await.status().as_u16(),
            400,
            "{wrong}"
        );
    }

    // A failure frees its key.
    let refused = post(&api, "/features", "k2", &json!({"name": "x"})).await;
    assert_eq!(refused.status().as_u16(), 422);
    let draft = post(&api, "/features", "k2", &json!({"name": "x", "draft": true})).await;
    assert_eq!(draft.status().as_u16(), 201);

    // An expired key has no effect.
    sqlx::query("update idempotency_keys set created_at = now() - interval '25 hours'")
        .execute(&world.db)
        .await
        .unwrap();
    let anew = post(&api, "/tasks", "k1", &body).await;
    assert_eq!((anew.status().as_u16(), replayed(&anew)), (201, false));
    assert_eq!(count(&world, "tasks").await, 2);
    let mut conn = world.db.acquire().await.unwrap();
    let gone = ralph_coordinator::store::idempotency::prune(&mut conn)
        .await
        .unwrap();
    drop(conn);
    assert_eq!((gone, count(&world, "idempotency_keys").await), (1, 1));
}

#[tokio::test]
async fn a_failed_request_does_not_repeat_its_finished_part() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let rename = async |from: &str, to: &str| {
        let statement = sqlx::AssertSqlSafe(format!("alter table {from} rename to {to}"));
        sqlx::query(statement).execute(&world.db).await.unwrap();
    };
    // The entry is stored; the next step fails.
    rename("memory_postings", "memory_elsewhere").await;
    let body = json!({"repo": "r", "kind": "knowledge", "title": "T", "body": "B", "tags": ["a"]});
    let failed = post(&api, "/memory", "k1", &body).await;
    assert!(failed.status().is_server_error(), "{}", failed.status());
    assert_eq!(count(&world, "knowledge").await, 1);
    rename("memory_elsewhere", "memory_postings").await;
    let again = post(&api, "/memory", "k1", &body).await;
    assert_eq!((again.status().as_u16(), replayed(&again)), (200, false));
    assert_eq!(count(&world, "knowledge").await, 1);

    api.submit("f", "- {key: a, title: A}").await;
    let stopped = post(&api, "/features/f/stop", "k2", &json!({})).await;
    assert_eq!(stopped.status().as_u16(), 200);
    let first: Value = stopped.json().await.unwrap();
    forget_answers(&world).await;
    let again = post(&api, "/features/f/stop", "k2", &json!({})).await;
    assert_eq!(again.status().as_u16(), 200);
    assert_eq!(again.json::<Value>().await.unwrap(), first);
}

#[tokio::test]
async fn one_of_several_concurrent_requests_is_executed() {
    let world = World::start().await.unwrap();
    let (one, two) = (Api::start(&world).await, Api::start(&world).await);
    let body = json!({"title": "Fix the login"});
    let requests = (0..12).map(|n| post(if n % 2 == 0 { &one } else { &two }, "/tasks", "k", &body));
    let mut served = 0;
    for response in join_all(requests).await {
        match response.status().as_u16() {
            201 => served += usize::from(!replayed(&response)),
            409 => {
                assert!(response.headers().contains_key("retry-after"));
                let problem: Value = response.json().await.unwrap();
                assert_eq!(problem["type"], "urn:ralph:problem:in-flight");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!((served, count(&world, "tasks").await), (1, 1));
    // Keys of different tokens are different keys.
    let other = post_as("submit-token-of-this-test", &one, "/tasks", "k", &body).await;
    assert_eq!((other.status().as_u16(), replayed(&other)), (201, false));
    assert_eq!(count(&world, "tasks").await, 2);
}

#[tokio::test]
async fn a_resend_finds_what_a_dead_coordinator_created() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let requests = [
        ("/tasks", json!({"title": "Alone"})),
        ("/tasks", json!({"title": "Inside", "feature": "f"})),
        (
            "/features",
            json!({"name": "g", "tasks": {"source": "t", "text": "- {key: a, title: A}\n- {key: b, title: B}"}}),
        ),
        (
            "/memory",
            json!({"repo": "r", "kind": "knowledge", "title": "T", "body": "B", "tags": ["x"]}),
        ),
        ("/tokens", json!({"name": "robot", "role": "read"})),
    ];
    for (n, (path, body)) in requests.iter().enumerate() {
        let key = format!("k{n}");
        let first = post(&api, path, &key, body).await;
        assert!(
            first.status().is_success(),
            "{path} {}",
            first.text().await.unwrap()
        );
        let first: Value = first.json().await.unwrap();
        let before = row_counts(&world).await;
        forget_answers(&world).await;
        let second = post(&api, path, &key, body).await;
        assert!(second.status().is_success() && !replayed(&second), "{path}");
        let second: Value = second.json().await.unwrap();
        assert_eq!(row_counts(&world).await, before, "{path}");
        if *path == "/tokens" {
            let works = async |token: &Value| {
                let token = token["token"].as_str().unwrap().to_owned();
                let answer = api
                    .send(reqwest::Method::GET, "/api/v1/status", Some(&token), None)
                    .await;
                answer.status().as_u16()
            };
            assert_eq!(
                (works(&first).await, works(&second).await),
                (401, 200),
                "only the token of the last answer works"
            );
        } else {
            for what in ["id", "task", "tasks", "run"] {
                assert_eq!(second[what], first[what], "{path}");
            }
        }
    }
    // No token is stored in clear text.
    let (_, created) = api
        .post("/tokens", &json!({"name": "plain", "role": "read"}))
        .await;
    assert!(created["token"].is_string());
    let sealed: Vec<Vec<u8>> =
        sqlx::query_scalar("select sealed_body from idempotency_keys where sealed_body is not null")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert!(!sealed.is_empty());
    assert!(
        sealed
            .iter()
            .all(|body| !String::from_utf8_lossy(body).contains("\"token\""))
    );
}

/// Creates `f` with two landed tasks, the second on top of the first.
async fn landed(world: &World, api: &Api) -> Vec<String> {
    let repo = json!({"address": "/nowhere", "id": "r", "base_ref": "main", "base_commit": "a".repeat(40)});
    let tasks = json!({"source": "t", "text": "- {key: a, title: A}\n- {key: b, title: B, after: [a]}"});
    let feature = json!({"name": "f", "draft": true, "repo": repo, "tasks": tasks});
    let (status, answer) = api.post("/features", &feature).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    for query in [
        "update tasks set state = 'done', open_blockers = 0",
        "update features set done = 2, pending = 0, blocked = 0",
        "insert into integrations
           (id, feature_id, task_id, attempt, source_commit, source_ref, state, landed_commit, ended_at)
         select gen_random_uuid(), feature_id, id, 1, repeat('b', 40), '', 'merged', repeat('b', 40), now() from tasks",
    ] {
        sqlx::query(query).execute(&world.db).await.unwrap();
    }
    let (_, page) = api.get("/tasks").await;
    let ids = page["items"].as_array().unwrap().iter();
    ids.map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn branch_operations_are_requested_once_when_a_coordinator_dies() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = landed(&world, &api).await;
    let requests = [
        ("/features/f/update".to_owned(), json!({}), 1),
        ("/features/f/merge".to_owned(), json!({"how": "merge"}), 1),
        (
            format!("/tasks/{}/revert", tasks[0]),
            json!({"dependents": true}),
            2,
        ),
    ];
    for (n, (path, body, made)) in requests.iter().enumerate() {
        let before = count(&world, "tasks").await;
        let first = post(&api, path, &format!("k{n}"), body).await;
        assert_eq!(
            first.status().as_u16(),
            201,
            "{path} {}",
            first.text().await.unwrap()
        );
        let first: Value = first.json().await.unwrap();
        assert_eq!(first["tasks"].as_array().unwrap().len(), *made, "{path}");
        assert_eq!(count(&world, "tasks").await, before + *made as i64, "{path}");
        forget_answers(&world).await;
        let second = post(&api, path, &format!("k{n}"), body).await;
        assert_eq!(
            (second.status().as_u16(), replayed(&second)),
            (201, false),
            "{path}"
        );
        let second: Value = second.json().await.unwrap();
        assert_eq!(second["tasks"], first["tasks"], "{path}");
        assert_eq!(count(&world, "tasks").await, before + *made as i64, "{path}");
    }
}

#[tokio::test]
async fn a_run_starts_once_when_a_coordinator_dies() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = json!({"source": "t", "text": "- {key: a, title: A}"});
    for (name, verb) in [("f", "run"), ("g", "build"), ("h", "review")] {
        let mut feature = json!({"name": name, "draft": true});
        match verb {
            "build" => feature["plan"] = "Do it.".into(),
            _ => feature["tasks"] = tasks.clone(),
        }
        let (status, answer) = api.post("/features", &feature).await;
        assert_eq!(status.as_u16(), 201, "{answer}");
        if verb == "review" {
            for query in [
                "update tasks t set state = 'done' from features f where f.id = t.feature_id and f.name = 'h'",
                "update features set done = 1, pending = 0 where name = 'h'",
            ] {
                sqlx::query(query).execute(&world.db).await.unwrap();
            }
        }
        let path = format!("/features/{name}/{verb}");
        let first = post(&api, &path, name, &json!({})).await;
        assert_eq!(
            first.status().as_u16(),
            200,
            "{path} {}",
            first.text().await.unwrap()
        );
        let first: Value = first.json().await.unwrap();
        assert!(first["run"].is_string(), "{first}");
        let runs = count(&world, "runs").await;
        forget_answers(&world).await;
        let second = post(&api, &path, name, &json!({})).await;
        let (status, is_replay) = (second.status().as_u16(), replayed(&second));
        let second: Value = second.json().await.unwrap();
        assert_eq!((status, is_replay), (200, false), "{path} {second}");
        assert_eq!(second, first, "{path}");
        assert_eq!(count(&world, "runs").await, runs, "{path}");
    }
}

#[tokio::test]
async fn a_resent_command_runs_once_and_ends_no_later_session() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let (_, page) = api.get("/tasks").await;
    let task = page["items"][0]["id"].as_str().unwrap().to_owned();
    // The rows as a worker's claim leaves them.
    let session = async || {
        for query in [
            "update dispatches set state = 'settled', settled_at = now() where state = 'live'",
            "insert into dispatches
               (id, task_id, feature_id, run_id, kind, attempt, worker, incarnation, lease_until)
             select gen_random_uuid(), t.id, f.id, f.current_run, 'work', 1, 'w', gen_random_uuid(), now() + interval '1 h'
             from tasks t join features f on f.id = t.feature_id",
            "delete from ready_tasks",
            "update tasks t set state = 'in_progress', dispatch_id = (select id from dispatches where state = 'live')",
        ] {
            sqlx::query(query).execute(&world.db).await.unwrap();
        }
    };
    session().await;
    let once = async |verb: &str, reason: &str, between: bool| {
        let path = format!("/tasks/{task}/{verb}");
        for again in [false, true] {
            if again && between {
                session().await;
            }
            let body = json!({"reason": reason});
            let answer = post(&api, &path, verb, &body).await;
            assert_eq!(
                answer.status().as_u16(),
                200,
                "{verb} {}",
                answer.text().await.unwrap()
            );
            assert_eq!(answer.json::<Value>().await.unwrap()["count"], 1, "{verb}");
            forget_answers(&world).await;
        }
        let logged: i64 = sqlx::query_scalar("select count(*) from task_logs where what = $1")
            .bind(verb)
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(logged, 1, "{verb}");
    };
    once("feedback", "the first word", false).await;
    let feedback: Option<String> = sqlx::query_scalar("select feedback from dispatches where state = 'live'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(feedback.as_deref(), Some("the first word"));
    once("interrupt", "the second word", true).await;
    let ending: Option<String> = sqlx::query_scalar("select end_reason from dispatches where state = 'live'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(ending, None, "the session that came after it goes on");
    once("release", "elsewhere", false).await;
    once("skip", "not needed", false).await;
}

/// Forwards connections to `to`, but cuts the first one off when its answer begins.
async fn cut_first_answer(listener: TcpListener, to: String) {
    let mut first = true;
    while let Ok((mut client, _)) = listener.accept().await {
        let mut server = TcpStream::connect(&to).await.unwrap();
        if std::mem::take(&mut first) {
            let (mut from_client, _) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let mut byte = [0];
            tokio::select! {
                _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                _ = from_server.read(&mut byte) => {}
            }
            continue;
        }
        tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            let _ = client.shutdown().await;
        });
    }
}

#[tokio::test]
async fn a_command_that_loses_its_answer_retries_and_creates_one_task() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let proxy = tokio::spawn(cut_first_answer(listener, api.url.replace("http://", "")));
    let output = Command::new(binary("ralph-coordinator"))
        .args(["submit", "task", "Fix the login", "--no-repo", "--output", "json"])
        .args(["--url", &url, "--token", ADMIN])
        .current_dir(world.dir())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let accepted: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (_, tasks) = api.get("/tasks").await;
    let items = tasks["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["id"]), (1, &accepted["task"]), "{stderr}");
    proxy.abort();
}

/// Gives this answer to the first request whose line begins with `begin`; forwards everything else to `to`.
async fn answer_first(listener: TcpListener, to: String, begin: &'static str, answer: &'static str) {
    let mut answered = false;
    while let Ok((mut client, _)) = listener.accept().await {
        let mut head = vec![0; 8192];
        let read = client.peek(&mut head).await.unwrap();
        let is_it = String::from_utf8_lossy(&head[..read]).starts_with(begin);
        if is_it && !std::mem::replace(&mut answered, true) {
            let _ = client.read(&mut head).await;
            client.write_all(answer.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            continue;
        }
        let mut server = TcpStream::connect(&to).await.unwrap();
        tokio::spawn(async move {
            // One request per connection, so that each is checked.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[tokio::test]
async fn commands_retry_a_coordinator_that_is_briefly_unavailable() {
    const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const GATEWAY: &str =
        "HTTP/1.1 502 Bad Gateway\r\nretry-after: 0\r\ncontent-length: 5\r\nconnection: close\r\n\r\n<html";
    const BROKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\nconnection: close\r\n\r\n{\"items\": [";
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    for (n, (begin, answer)) in [
        ("POST /api/v1/features", UNAVAILABLE),
        ("POST /api/v1/features", GATEWAY),
        ("GET /api/v1/features", UNAVAILABLE),
        ("GET /api/v1/features", BROKEN),
    ]
    .into_iter()
    .enumerate()
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let to = api.url.replace("http://", "");
        let proxy = tokio::spawn(answer_first(listener, to, begin, answer));
        let name = format!("f{n}");
        let created = Command::new(binary("ralph-coordinator"))
            .args([
                "submit",
                "feature",
                &name,
                "--description",
                "x",
                "--no-repo",
                "--draft",
            ])
            .args(["--url", &url, "--token", ADMIN])
            .current_dir(world.dir())
            .output()
            .await
            .unwrap();
        assert!(
            created.status.success(),
            "{begin}: {}",
            String::from_utf8_lossy(&created.stderr)
        );
        let shown = Command::new(binary("ralph-coordinator"))
            .args(["feature", "show", &name, "--url", &url, "--token", ADMIN])
            .current_dir(world.dir())
            .output()
            .await
            .unwrap();
        assert!(
            shown.status.success(),
            "{begin}: {}",
            String::from_utf8_lossy(&shown.stderr)
        );
        proxy.abort();
    }
    let (_, features) = api.get("/features").await;
    assert_eq!(features["items"].as_array().unwrap().len(), 4, "{features}");
}

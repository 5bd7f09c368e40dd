//! Values too large for a row, a clock or a message are refused, wherever they arrive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ralph_coordinator::api;
use ralph_coordinator::flow::Settings;
use ralph_coordinator::services::{Deps, Reserved};
use ralph_coordinator::store::access::Role;
use ralph_tests::harness::World;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::caller::{ADMIN, Api};

#[tokio::test]
async fn edits_and_runs_obey_the_limits_of_task_files() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}\n- {key: b, title: B, after: [a]}")
        .await;
    let (_, page) = api.get("/features/f/tasks").await;
    let path = format!("/api/v1/tasks/{}", page["items"][1]["id"].as_str().unwrap());
    for (field, value) in [
        ("agent", "x".repeat(3_000)),
        ("model", "x".repeat(101)),
        ("title", "x".repeat(501)),
        ("title", "a\u{7}b".to_owned()),
        ("description", "x".repeat(200_001)),
        ("pool", "No Pool".to_owned()),
    ] {
        let body = json!({field: value}).to_string();
        let response = api.send(Method::PATCH, &path, Some(ADMIN), Some(body)).await;
        assert_eq!(response.status().as_u16(), 422, "{field}");
    }
    for run in [json!({"agent": "x".repeat(3_000)}), json!({"model": "a\nb"})] {
        let (status, problem) = api.post("/tasks", &json!({"title": "T", "run": run})).await;
        assert_eq!(status.as_u16(), 422, "{problem}");
    }
}

#[tokio::test]
async fn a_date_out_of_range_is_refused() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let line =
        |date: &str| json!({"repo": "r", "items": [{"id": "1", "date": date, "title": "T", "body": "B"}]});
    let (status, problem) = api
        .post("/memory/import", &line("9999-12-31T23:59:59-01:00"))
        .await;
    assert_eq!(status.as_u16(), 400, "{problem}");
    let (status, imported) = api
        .post("/memory/import", &line("2026-01-01T00:30:00+01:00"))
        .await;
    assert_eq!((status.as_u16(), &imported["imported"]), (200, &json!(1)));
}

#[tokio::test]
async fn a_large_body_of_the_wrong_shape_is_read_once() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let numbers = Value::Array(vec![json!(0); 2_000_000]).to_string();
    let response = api
        .send(Method::POST, "/api/v1/memory/search", Some(ADMIN), Some(numbers))
        .await;
    assert_eq!(response.status().as_u16(), 400);
    // In a body of ordinary size, a whole number may have a decimal point.
    let (status, _) = api
        .post("/tasks", &json!({"title": "T", "run": {"iterations": 5.0}}))
        .await;
    assert_eq!(status.as_u16(), 201);
}

/// Far more than anything here takes; reached only by a failing test.
const BOUND: Duration = Duration::from_secs(30);

#[tokio::test]
async fn half_sent_and_idle_connections_are_closed() {
    let world = World::start().await.unwrap();
    let (address, shutdown, server) = serve(&world, Duration::from_millis(200), BOUND).await;
    let half = "GET /healthz HTTP/1.1\r\nHost: a\r\n";
    for (sent, answered) in [(half.to_owned(), false), (format!("{half}\r\n"), true)] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut reply = String::new();
        let closed = stream.read_to_string(&mut reply);
        tokio::time::timeout(BOUND, closed)
            .await
            .expect("the connection is closed")
            .unwrap();
        assert_eq!(reply.starts_with("HTTP/1.1 200"), answered, "{reply}");
    }
    shutdown.cancel();
    server.await.unwrap();
}

/// Serves the API with these timeouts until the token is cancelled.
async fn serve(
    world: &World,
    head: Duration,
    body: Duration,
) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let deps = Deps {
        db: world.db.clone(),
        reserved: Reserved::shared(&world.db),
        bus: world.bus.clone(),
        settings: world.settings.clone(),
        pulse: Arc::default(),
    };
    let shutdown = CancellationToken::new();
    let serving = api::serve_within(deps, listener, shutdown.clone(), api::Bounds { head, body });
    (address, shutdown, tokio::spawn(serving))
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_half_sent_requests_block_no_other_client() {
    let world = bounded(100).await;
    let (address, shutdown, server) = serve(&world, BOUND, BOUND).await;
    let mut half = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may have closed this connection already.
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n").await;
        half.push(stream);
    }
    let mut whole = TcpStream::connect(address).await.unwrap();
    whole
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut reply = String::new();
    let answered = whole.read_to_string(&mut reply);
    tokio::time::timeout(BOUND / 3, answered)
        .await
        .expect("an answer in time")
        .unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    shutdown.cancel();
    server.await.unwrap();
}

#[tokio::test]
async fn a_missing_or_blank_body_is_refused_in_time() {
    let world = World::start().await.unwrap();
    api::register_token(&world.db, "admin", ADMIN, Role::Admin)
        .await
        .unwrap();
    let (address, shutdown, server) = serve(&world, BOUND, Duration::from_millis(300)).await;
    let blanks = " ".repeat(1 << 20);
    for (length, sent, expected) in [
        (100, "{", "HTTP/1.1 408"),
        (1 << 20, blanks.as_str(), "HTTP/1.1 400"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /api/v1/features HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {ADMIN}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut reply = String::new();
        let answered = stream.read_to_string(&mut reply);
        tokio::time::timeout(BOUND, answered)
            .await
            .expect("an answer in time")
            .unwrap();
        assert!(reply.starts_with(expected), "{reply}");
    }
    shutdown.cancel();
    server.await.unwrap();
}

async fn bounded(connections: usize) -> World {
    let settings = Settings {
        api_connections: connections,
        ..Settings::default()
    };
    World::start_with(settings).await.unwrap()
}

/// Sends a request and reads until the connection closes.
async fn closing_answer(mut stream: TcpStream) -> String {
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let mut reply = String::new();
    let closed = stream.read_to_string(&mut reply);
    tokio::time::timeout(BOUND, closed)
        .await
        .expect("the connection is closed")
        .unwrap();
    reply
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_one_that_ends() {
    let world = bounded(2).await;
    let api = Api::start(&world).await;
    let address = api.url.strip_prefix("http://").unwrap();
    let connect = async || TcpStream::connect(address).await.unwrap();
    // Two idle connections fill the bound; the third is not refused.
    let idle = (connect().await, connect().await);
    let third = tokio::spawn(closing_answer(connect().await));
    drop(idle.0);
    // It takes the last place, so the server closes the connection after the answer.
    let reply = third.await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains("connection: close"), "{reply}");
    drop(idle.1);
}

#[tokio::test]
async fn streams_leave_room_for_requests() {
    let world = bounded(4).await;
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let open = async || {
        let path = "/api/v1/features/f/events";
        api.send(Method::GET, path, Some(ADMIN), None).await
    };
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = open().await;
        assert!(stream.chunk().await.unwrap().is_some());
        streams.push(stream);
    }
    let refused = open().await;
    assert_eq!(refused.status().as_u16(), 503);
    assert_eq!(refused.headers()["retry-after"], "5");
    let problem: Value = refused.json().await.unwrap();
    assert!(
        problem["detail"].as_str().unwrap().contains("max_connections"),
        "{problem}"
    );
    let (status, _) = api.get("/features/f").await;
    assert_eq!(status.as_u16(), 200);
    // A closed stream frees its place.
    drop(streams.pop());
    let again = async {
        while open().await.status().as_u16() != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, again).await.expect("a place is free");
    drop(streams);
}

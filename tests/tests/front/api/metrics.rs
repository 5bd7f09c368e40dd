//! `/metrics` for those who scale or monitor workers.

use std::time::Duration;

use futures::future::join_all;
use ralph_coordinator::flow;
use ralph_tests::harness::{World, until};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::caller::{ADMIN, Api};

async fn figures(api: &Api) -> String {
    let figures = api.send(Method::GET, "/metrics", Some(ADMIN), None).await;
    figures.text().await.unwrap()
}

fn has(figures: &str, line: &str) {
    assert!(figures.lines().any(|has| has == line), "{line} in {figures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_wanted_counts_the_room_of_features() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let list = |n: usize, pool: &str| -> String {
        (0..n)
            .map(|n| format!("- {{key: t{n}, title: Task {n}, pool: {pool}}}\n"))
            .collect()
    };
    // A feature has room for four sessions by default.
    api.submit("large", &list(6, "gpu")).await;
    api.submit("small", &list(2, "gpu")).await;
    api.submit("other", &list(1, "cpu")).await;
    let text = figures(&api).await;
    for line in [
        "ralph_tasks_ready{pool=\"gpu\"} 8",
        "ralph_slots_wanted{pool=\"gpu\"} 6",
        "ralph_slots_wanted{pool=\"cpu\"} 1",
        "ralph_slots_busy{pool=\"gpu\"} 0",
        "ralph_features{status=\"running\"} 3",
        "ralph_tasks{status=\"pending\"} 9",
        "ralph_broker_connected 1",
    ] {
        has(&text, line);
    }
    let paused = api
        .send(Method::POST, "/api/v1/features/large/pause", Some(ADMIN), None)
        .await;
    assert!(paused.status().is_success(), "{}", paused.status());
    let text = figures(&api).await;
    has(&text, "ralph_slots_wanted{pool=\"gpu\"} 2");
    has(&text, "ralph_features{status=\"paused\"} 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn max_parallel_may_be_the_largest_integer() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = json!({"source": "tasks.yaml", "text": "- {key: a, title: A, pool: gpu}\n"});
    let feature = json!({"name": "f", "tasks": tasks, "max_parallel": i32::MAX});
    let (status, answer) = api.post("/features", &feature).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    has(&figures(&api).await, "ralph_slots_wanted{pool=\"gpu\"} 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_metrics_requests_leave_connections_for_others() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    // Only the metrics query reads this table.
    let mut held = world.db.begin().await.unwrap();
    sqlx::query("lock table bad_reports in access exclusive mode")
        .execute(&mut *held)
        .await
        .unwrap();
    let others = async {
        until("a count that waits", async || {
            let waiting: i64 = sqlx::query_scalar("select count(*) from pg_locks where not granted")
                .fetch_one(&mut *held)
                .await
                .unwrap();
            waiting > 0
        })
        .await;
        let answered = tokio::time::timeout(Duration::from_secs(5), api.get("/workers")).await;
        held.rollback().await.unwrap();
        answered.map(|(status, _)| status)
    };
    // More requests than database connections.
    let asking = join_all((0..24).map(|_| figures(&api)));
    let (text, answered) = tokio::join!(asking, others);
    assert_eq!(answered.ok(), Some(StatusCode::OK));
    for text in text {
        has(&text, "ralph_counters_drifted 0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drifted_counters_are_reported_and_corrected() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}\n- {key: b, title: B, after: [a]}\n")
        .await;
    has(&figures(&api).await, "ralph_counters_drifted 0");
    sqlx::query("update features set pending = pending + 1")
        .execute(&world.db)
        .await
        .unwrap();
    // Each coordinator counts once a minute; this one has not counted yet.
    let api = Api::start(&world).await;
    has(&figures(&api).await, "ralph_counters_drifted 1");

    let counts = async || -> (i32, i32) {
        sqlx::query_as("select pending, blocked from features")
            .fetch_one(&world.db)
            .await
            .unwrap()
    };
    assert_eq!(counts().await, (2, 1));
    assert_eq!(flow::maintenance::recount::tick(&world.db).await.unwrap().0, 1);
    assert_eq!(counts().await, (1, 1));
    assert_eq!(flow::maintenance::recount::tick(&world.db).await.unwrap().0, 0);
}

//! Removal of workers that are gone.

use ralph_coordinator::store;
use ralph_tests::harness::World;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::caller::{ADMIN, Api};

async fn insert_worker(world: &World, name: &str, minutes_ago: i32, draining: bool) {
    sqlx::query(
        "insert into workers (name, incarnation, data_id, pools, agents, slots, free_slots, version, host, pid, accounts, rules, draining,
                              seen_at)
         values ($1, gen_random_uuid(), 'd', '{default}', '{default}', 1, 1, '1', 'h', 1, '{a}', '[]', $3,
                 now() - make_interval(mins => $2))",
    )
    .bind(name)
    .bind(minutes_ago)
    .bind(draining)
    .execute(&world.db)
    .await
    .unwrap();
}

async fn names(api: &Api) -> Vec<String> {
    let (_, page) = api.get("/workers").await;
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|worker| worker["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn away_workers_are_removed_on_request_and_drained_ones_by_time() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    insert_worker(&world, "away", 20, false).await;
    insert_worker(&world, "drained", 20, true).await;
    insert_worker(&world, "drains", 1, true).await;
    insert_worker(&world, "here", 0, false).await;

    let mut conn = world.db.acquire().await.unwrap();
    store::worker::forget_gone(&mut conn, 30, 10).await.unwrap();
    drop(conn);
    assert_eq!(names(&api).await, ["away", "drains", "here"]);

    for (name, status) in [
        ("away", StatusCode::OK),
        ("away", StatusCode::NOT_FOUND),
        ("here", StatusCode::CONFLICT),
    ] {
        let path = format!("/api/v1/workers/{name}");
        let answer = api.send(Method::DELETE, &path, Some(ADMIN), None).await;
        assert_eq!(answer.status(), status, "{name}");
        let body: Value = answer.json().await.unwrap();
        let gives_advice = body["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("worker list"));
        assert_eq!(gives_advice, status != StatusCode::OK, "{body}");
    }
    assert_eq!(names(&api).await, ["drains", "here"]);
}

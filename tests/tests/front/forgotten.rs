//! Workers that are gone, and who may be forgotten.

use ralph_coordinator::store;
use ralph_tests::harness::World;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::caller::{ADMIN, Api};

async fn heard(world: &World, name: &str, minutes_ago: i32, draining: bool) {
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
async fn a_worker_that_is_away_is_forgotten_when_asked_and_one_that_was_drained_by_itself() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    heard(&world, "away", 20, false).await;
    heard(&world, "drained", 20, true).await;
    heard(&world, "drains", 1, true).await;
    heard(&world, "here", 0, false).await;

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
        let said: Value = answer.json().await.unwrap();
        let is_told = said["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("worker list"));
        assert_eq!(is_told, status != StatusCode::OK, "{said}");
    }
    assert_eq!(names(&api).await, ["drains", "here"]);
    api.stop().await;
    world.stop().await;
}

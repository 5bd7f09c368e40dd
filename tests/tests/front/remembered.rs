//! What people ask of the memory, and give it, at its bounds.

use ralph_tests::harness::World;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::caller::Api;

fn item(id: &str, title: &str) -> Value {
    json!({"id": id, "date": "2024-01-01T00:00:00Z", "title": title, "body": "", "paths": [], "tags": ["dns"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_reads_as_many_entries_as_it_may_show() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let items: Vec<Value> = (0..20)
        .map(|n| {
            item(
                &format!("e{n}"),
                &format!("Serial numbers of zone{n} wrap around"),
            )
        })
        .collect();
    let (status, told) = api
        .post("/memory/import", &json!({"repo": "r", "items": items}))
        .await;
    assert_eq!((status, &told["imported"]), (StatusCode::OK, &json!(20)));
    let asked = json!({"query_id": "q", "date": "2025-01-01T00:00:00Z", "title": "Compare serial numbers"});
    let search = json!({"repo": "r", "kind": "learning", "limit": 50, "queries": [asked]});
    let (status, answers) = api.post("/memory/search", &search).await;
    assert_eq!(status, StatusCode::OK, "{answers}");
    let answer = &answers["items"][0];
    let count = |of: &str| answer[of].as_array().unwrap().len();
    assert_eq!(count("items") + count("left_out"), 20, "{answer}");
    api.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_has_no_entries_to_list_or_show() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (status, problem) = api.get("/memory?kind=journal").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert!(
        problem.to_string().contains("memory search --kind journal"),
        "{problem}"
    );
    let (status, problem) = api.get("/memory/d-000000000000").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{problem}");
    assert!(problem.to_string().contains("task show"), "{problem}");
    api.stop().await;
    world.stop().await;
}

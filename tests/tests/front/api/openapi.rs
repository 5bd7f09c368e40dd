use std::collections::BTreeSet;

use ralph_tests::harness::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::Api;

#[tokio::test]
async fn each_path_takes_exactly_the_methods_of_the_openapi_document() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let page = api.send(Method::GET, "/api/docs", None, None).await;
    assert_eq!(page.status().as_u16(), 200);
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert!(page.text().await.unwrap().contains("submit_feature"));

    let response = api.send(Method::GET, "/api/openapi.json", None, None).await;
    assert_eq!(response.status().as_u16(), 200);
    let document: Value = response.json().await.unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        let mut described: BTreeSet<String> = item
            .as_object()
            .unwrap()
            .keys()
            .map(|method| method.to_uppercase())
            .collect();
        if described.contains("GET") {
            described.insert("HEAD".to_owned());
        }
        let some = path.replace(['{', '}'], "");
        let refused = api.send(Method::TRACE, &some, None, None).await;
        assert_eq!(refused.status().as_u16(), 405, "{path}");
        let allowed = refused.headers()["allow"].to_str().unwrap().to_owned();
        let taken: BTreeSet<String> = allowed.split(',').map(str::to_owned).collect();
        assert_eq!(taken, described, "{path}");
    }
}

#[tokio::test]
async fn a_path_that_is_not_utf8_gets_a_problem_answer() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let refused = api
        .send(
            Method::GET,
            "/api/v1/features/%FF",
            Some(crate::caller::ADMIN),
            None,
        )
        .await;
    assert_eq!(refused.status().as_u16(), 400);
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
}

#[tokio::test]
async fn an_age_out_of_range_is_refused() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    for (days, expected) in [(1.29e308, 400), (36_500.0, 200)] {
        let (status, answer) = api
            .post("/memory/prune", &json!({"unused_days": days, "dry_run": true}))
            .await;
        assert_eq!(status.as_u16(), expected, "{answer}");
    }
}

//! The coordinator's ceilings for every run.

use ralph_coordinator::domain::run::Ceilings;
use ralph_coordinator::flow::Settings;
use ralph_tests::harness::World;
use serde_json::json;

use crate::caller::Api;

#[tokio::test]
async fn no_run_gets_more_than_the_coordinator_allows() {
    let world = World::start_with(Settings {
        ceilings: Ceilings {
            cost_usd: Some(5.0),
            iterations: Some(30),
            ..Ceilings::default()
        },
        ..Settings::default()
    })
    .await
    .unwrap();
    let api = Api::start(&world).await;
    let graph = json!({"source": "t", "text": "- {key: a, title: A, pool: nobody}"});
    for (run, limit) in [
        (json!({"cost_usd": 0.0}), "cost_usd"),
        (json!({"cost_usd": 5.01}), "cost_usd"),
        (json!({"iterations": 31}), "iterations"),
    ] {
        let body = json!({"name": "f", "tasks": graph, "run": run});
        let (status, answer) = api.post("/features", &body).await;
        assert_eq!(status.as_u16(), 422, "{answer}");
        let words = answer["detail"].as_str().unwrap();
        assert!(words.contains(limit) && words.contains("[ceilings]"), "{words}");
        let (status, _) = api.post("/tasks", &json!({"title": "T", "run": run})).await;
        assert_eq!(status.as_u16(), 422);
    }
    // The default of 20 USD is cut to the ceiling.
    let body = json!({"name": "f", "tasks": graph, "run": {"iterations": 7}, "draft": true});
    let (status, answer) = api.post("/features", &body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let (status, answer) = api.post("/features/f/run", &json!({"iterations": 0})).await;
    assert_eq!(status.as_u16(), 422, "{answer}");
    let (status, answer) = api.post("/features/f/run", &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    let (_, feature) = api.get("/features/f").await;
    let limits = &feature["run"]["limits"];
    assert_eq!(
        (&limits["cost_usd"], &limits["iterations"]),
        (&json!(5.0), &json!(7)),
        "{limits}"
    );
}

//! What people see first when they look at everything: what waits for them, and what it cost.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::said;

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_person_and_what_it_cost_stands_below_the_features() {
    let stage = Stage::set().await;
    assert!(!said(&stage, "status").await.contains("waits for you"));
    let tasks = "- {key: a, title: A, max_retries: 0, description: \"@fail no\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("blocked").await;
    // Nobody serves its pool, so it runs until it is paused.
    stage
        .api
        .submit("g", "- {key: a, title: A, pool: nowhere}\n")
        .await;
    let paid = sqlx::query("update runs set cost_usd = 0.75")
        .execute(&stage.world.db)
        .await;
    assert_eq!(paid.unwrap().rows_affected(), 2);

    let one = "1 task needs you (`ralph-coordinator task list --status needs_review`), 1.50 USD so far";
    for line in ["feature list", "status"] {
        let told = said(&stage, line).await;
        assert!(told.contains(one), "`{line}`: {told}");
    }
    said(&stage, "feature pause g").await;
    said(&stage, "task skip f/a").await;
    for line in ["feature list", "status"] {
        let told = said(&stage, line).await;
        assert!(
            told.contains("1 feature is paused, 1.50 USD so far"),
            "`{line}`: {told}"
        );
    }
    let status: Value = serde_json::from_str(&said(&stage, "status --output json").await).unwrap();
    assert_eq!(
        (&status["needs_person"], &status["cost_usd"]),
        (&json!({"tasks": 0, "paused": 1}), &json!(1.5))
    );
    stage.strike().await;
}

//! What people see at a glance: what waits for them, what it cost, and when something was.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{said, said_in};

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
    let paid = sqlx::query("update runs set cost_usd = 0.75, estimated_usd = 0")
        .execute(&stage.world.db)
        .await;
    assert_eq!(paid.unwrap().rows_affected(), 2);

    let one = "1 task needs you (`ralph inbox`)";
    for (line, more) in [("feature list", ""), ("status", ", 1 task has no worker")] {
        let told = said(&stage, line).await;
        let all = format!("{one}{more}, 1.50 USD so far");
        assert!(told.contains(&all), "`{line}`: {told}");
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
        (
            &json!({"tasks": 0, "features": 0, "paused": 1, "agents": 0, "unserved": 0}),
            &json!(1.5)
        )
    );
    stage.strike().await;
}

/// Of features that are over, the newest five are named.
#[tokio::test(flavor = "multi_thread")]
async fn features_that_are_not_named_are_paused_and_cost_something_too() {
    let stage = Stage::set().await;
    for n in 0..7 {
        let graph = "- {key: a, title: A, pool: nowhere}\n";
        stage.api.submit(&format!("g{n}"), graph).await;
    }
    sqlx::query("update runs set cost_usd = 0.5")
        .execute(&stage.world.db)
        .await
        .unwrap();
    for n in 0..7 {
        let line = if n == 6 {
            "feature pause g6".to_owned()
        } else {
            format!("feature cancel g{n} --yes")
        };
        said(&stage, &line).await;
    }
    let told = said(&stage, "status").await;
    assert!(
        told.contains("1 feature is paused, 3.00 USD so far, 3.50 USD with all other features"),
        "{told}"
    );
    let told = said(&stage, "feature list").await;
    assert!(told.contains("3.50 USD so far\n"), "{told}");
    let status: Value = serde_json::from_str(&said(&stage, "status --output json").await).unwrap();
    assert_eq!(
        (&status["cost_usd"], &status["total_cost_usd"]),
        (&json!(3.0), &json!(3.5))
    );
    stage.strike().await;
}

/// The newest five that are over, and whatever needs a person, however old.
#[tokio::test(flavor = "multi_thread")]
async fn features_that_need_a_person_are_always_named() {
    let stage = Stage::set().await;
    let tasks = "- {key: a, title: A, max_retries: 0, description: \"@fail no\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("blocked").await;
    for n in 0..7 {
        stage
            .api
            .submit(&format!("g{n}"), "- {key: a, title: A, pool: nowhere}\n")
            .await;
        said(&stage, &format!("feature cancel g{n} --yes")).await;
    }
    let told = said(&stage, "status").await;
    assert!(
        told.contains("\nf ") && told.contains("\nand 2 more: `ralph feature list`\n"),
        "{told}"
    );
    let status: Value = serde_json::from_str(&said(&stage, "status --output json").await).unwrap();
    assert_eq!(
        (
            status["features"].as_array().unwrap().len(),
            &status["more_features"]
        ),
        (6, &json!(2))
    );
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_told_times_of_their_zone_and_programs_of_none() {
    let stage = Stage::set().await;
    stage
        .api
        .submit("g", "- {key: a, title: A, pool: nowhere}\n")
        .await;
    said(&stage, "task skip g/a").await;
    for (zone, ends) in [("XYZ-5:30", "+05:30"), ("XYZ3", "-03:00"), ("UTC0", "Z")] {
        let log = said_in(zone, &stage, "task log g/a").await;
        let entry = log.lines().find(|line| line.contains("skip")).unwrap_or(&log);
        let time = entry.split_whitespace().nth(1).unwrap_or_default();
        assert!(time.ends_with(ends), "{zone}: {log}");
        let log = said_in(zone, &stage, "task log g/a --output json").await;
        let log: Value = serde_json::from_str(&log).unwrap();
        let at = log["items"][0]["at"].as_str().unwrap();
        assert!(at.ends_with('Z'), "{zone}: {log}");
    }
    stage.strike().await;
}

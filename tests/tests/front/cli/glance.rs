//! Overviews: what needs a person, what it cost, and when something happened.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{stdout_in_zone, stdout_of};

#[tokio::test(flavor = "multi_thread")]
async fn overviews_count_what_needs_a_person_and_sum_up_costs() {
    let stage = Stage::start().await;
    assert!(!stdout_of(&stage, "status").await.contains("waits for you"));
    let tasks = "- {key: a, title: A, max_retries: 0, description: \"@fail no\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("blocked").await;
    // No worker serves its pool, so it runs until it is paused.
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
        let text = stdout_of(&stage, line).await;
        let all = format!("{one}{more}, 1.50 USD so far");
        assert!(text.contains(&all), "`{line}`: {text}");
    }
    stdout_of(&stage, "feature pause g").await;
    stdout_of(&stage, "task skip f/a").await;
    for line in ["feature list", "status"] {
        let text = stdout_of(&stage, line).await;
        assert!(
            text.contains("1 feature is paused, 1.50 USD so far"),
            "`{line}`: {text}"
        );
    }
    let status: Value = serde_json::from_str(&stdout_of(&stage, "status --output json").await).unwrap();
    assert_eq!(
        (&status["needs_person"], &status["cost_usd"]),
        (
            &json!({"tasks": 0, "features": 0, "paused": 1, "agents": 0, "unserved": 0}),
            &json!(1.5)
        )
    );
}

/// The status lists only the newest five of the ended features.
#[tokio::test(flavor = "multi_thread")]
async fn totals_include_features_that_the_status_does_not_list() {
    let stage = Stage::start().await;
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
        stdout_of(&stage, &line).await;
    }
    let text = stdout_of(&stage, "status").await;
    assert!(
        text.contains("1 feature is paused, 3.00 USD so far, 3.50 USD with all other features"),
        "{text}"
    );
    let text = stdout_of(&stage, "feature list").await;
    assert!(text.contains("3.50 USD so far\n"), "{text}");
    let status: Value = serde_json::from_str(&stdout_of(&stage, "status --output json").await).unwrap();
    assert_eq!(
        (&status["cost_usd"], &status["total_cost_usd"]),
        (&json!(3.0), &json!(3.5))
    );
}

/// The status lists the newest five ended features and every feature that needs a person, however old.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_always_lists_features_that_need_a_person() {
    let stage = Stage::start().await;
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
        stdout_of(&stage, &format!("feature cancel g{n} --yes")).await;
    }
    let text = stdout_of(&stage, "status").await;
    assert!(
        text.contains("\nf ") && text.contains("\nand 2 more: `ralph feature list`\n"),
        "{text}"
    );
    let status: Value = serde_json::from_str(&stdout_of(&stage, "status --output json").await).unwrap();
    assert_eq!(
        (
            status["features"].as_array().unwrap().len(),
            &status["more_features"]
        ),
        (6, &json!(2))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_times_in_their_zone_and_programs_in_utc() {
    let stage = Stage::start().await;
    stage
        .api
        .submit("g", "- {key: a, title: A, pool: nowhere}\n")
        .await;
    stdout_of(&stage, "task skip g/a").await;
    for (zone, ends) in [("XYZ-5:30", "+05:30"), ("XYZ3", "-03:00"), ("UTC0", "Z")] {
        let log = stdout_in_zone(zone, &stage, "task log g/a").await;
        let entry = log.lines().find(|line| line.contains("skip")).unwrap_or(&log);
        let time = entry.split_whitespace().nth(1).unwrap_or_default();
        assert!(time.ends_with(ends), "{zone}: {log}");
        let log = stdout_in_zone(zone, &stage, "task log g/a --output json").await;
        let log: Value = serde_json::from_str(&log).unwrap();
        let at = log["items"][0]["at"].as_str().unwrap();
        assert!(at.ends_with('Z'), "{zone}: {log}");
    }
}

//! What was spent, what limits it and what it is going to be, as people and programs are told.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, said, until_said};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_and_what_limits_it_is_told() {
    let stage = Stage::set().await;
    let tasks = "- {key: a, title: A, description: \"@usage 10 2 0.5\\n@write a.txt a\\n@done\"}\n\
                 - {key: b, title: B, after: [a], description: \"@usage 10 2 0.25\\n@write b.txt b\\n@done\"}\n\
                 - {key: c, title: C, after: [b], description: \"@write c.txt c\\n@done\"}\n";
    let graph = json!({"tasks": {"source": "t", "text": tasks}});
    stage.submit(graph).await;
    stage.ends("complete").await;
    let table = said(&stage, "cost --by task").await;
    for words in ["0.50 USD", "0.25 USD", "unknown", "0.75 USD"] {
        assert!(table.contains(words), "{table}");
    }
    assert!(!table.contains("0.00"), "{table}");
    let told: Value = serde_json::from_str(&said(&stage, "cost --by kind --output json").await).unwrap();
    assert_eq!(
        (
            &told["items"][0]["key"],
            &told["total"]["cost_usd"],
            &told["total"]["sessions"]
        ),
        (&json!("work"), &json!(0.75), &json!(3)),
        "{told}"
    );
    let csv = said(&stage, "cost --by feature --since 1h --csv").await;
    assert!(
        csv.lines()
            .nth(1)
            .is_some_and(|row| row.contains(",f,3,0.750000,")),
        "{csv}"
    );
    assert!(
        said(&stage, "cost --since 2999-01-01")
            .await
            .contains("nothing was spent")
    );
    let figures = said(&stage, "task show f/c").await;
    assert!(figures.contains("cost unknown"), "{figures}");

    // A limit that is changed while nothing runs holds what comes, and says so.
    let table = said(&stage, "budget set day --max-cost 0.6").await;
    assert!(
        table.contains("0.60 USD") && table.contains("-0.15 USD"),
        "{table}"
    );
    said(
        &stage,
        "task create More --feature f --description '@write d.txt d\n@done'",
    )
    .await;
    said(&stage, "feature run f").await;
    let words = "the limit of the day is used up: 0.75 USD of 0.60; `ralph-coordinator budget set day --max-cost USD` changes it";
    until_said(&stage, "status", words).await;
    assert!(said(&stage, "feature show f").await.contains(words));
    said(&stage, "budget set day --max-cost 0").await;
    stage.ends("complete").await;

    for (line, words) in [
        ("budget set week --max-cost 1", "`week` is no level of a budget"),
        ("budget set day --max-cost=-1", "a limit is 0 or more"),
        ("budget set day f --max-cost 1", "a limit of the day has no name"),
        ("budget set feature g --max-cost 1", "g"),
        ("cost --since yesterday", "give a time ago like 12h"),
    ] {
        let refused = output(&stage, line).await;
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && told.contains(words),
            "`{line}`: {told}"
        );
    }
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_estimated_by_earlier_tasks_of_its_repository() {
    let stage = Stage::set().await;
    let task = |n: usize| {
        format!("- {{key: k{n}, title: T{n}, description: \"@usage 10 2 0.5\\n@write f{n} x\\n@done\"}}\n")
    };
    let tasks: String = (0..3).map(task).collect();
    let at = |tasks: usize| format!("/estimate?repo_id=r&tasks={tasks}&side_by_side=2");
    let (status, told) = stage.api.get(&at(4)).await;
    assert!(status.is_success() && told["cost_usd"].is_null(), "{told}");
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("complete").await;
    let (_, told) = stage.api.get(&at(4)).await;
    assert_eq!(
        (&told["cost_usd"], &told["based_on"]),
        (&json!({"low": 2.0, "high": 2.0}), &json!(3)),
        "{told}"
    );
    // A folder without tasks that were done.
    std::fs::write(stage.world.dir().join("tasks.yaml"), "- {key: a, title: A}\n").unwrap();
    let drawn = said(&stage, "submit feature g --tasks tasks.yaml --dry-run").await;
    assert!(drawn.contains("unknown yet"), "{drawn}");
    stage.strike().await;
}

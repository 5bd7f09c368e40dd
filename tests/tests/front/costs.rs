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
    for words in ["0.50 USD", "0.25 USD", "~0.00", "~0.75 USD"] {
        assert!(table.contains(words), "{table}");
    }
    assert!(!table.contains("0.00 "), "{table}");
    let told: Value = serde_json::from_str(&said(&stage, "cost --by kind --output json").await).unwrap();
    assert_eq!(
        (&told["items"][0]["key"], &told["total"]["sessions"]),
        (&json!("work"), &json!(3)),
        "{told}"
    );
    let csv = said(&stage, "cost --by feature --since 1h --csv").await;
    assert!(
        csv.lines().nth(1).is_some_and(|row| row.contains(",f,3,0.75")),
        "{csv}"
    );
    assert!(
        said(&stage, "cost --since 2999-01-01")
            .await
            .contains("nothing was spent")
    );
    let known = |name: &str| told["total"][name].as_f64().unwrap_or_default();
    assert!(known("estimated_usd") > 0.0, "{told}");
    assert!(
        (known("cost_usd") - known("estimated_usd") - 0.75).abs() < 1e-9,
        "{told}"
    );
    let figures = said(&stage, "task show f/c").await;
    assert!(figures.contains("~0.00"), "{figures}");

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
    let words =
        "the limit of the day is used up: 0.75 USD of 0.60; `ralph budget set day --max-cost USD` changes it";
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
async fn limits_that_a_submission_brings_hold_and_show_and_can_be_set_anew() {
    let stage = Stage::set().await;
    let tasks = "- {key: a, title: A, description: \"@usage 10 2 0.5\\n@done\"}\n\
                 - {key: b, title: B, after: [a], description: \"@done\"}\n";
    std::fs::write(stage.world.dir().join("tasks.yaml"), tasks).unwrap();
    let submit = "submit feature g --tasks tasks.yaml --no-repo --no-verify";
    let refused = |line: String, words: &'static str| {
        let stage = &stage;
        async move {
            let refused = output(stage, &line).await;
            let told = String::from_utf8_lossy(&refused.stderr);
            assert!(
                !refused.status.success() && told.contains(words),
                "`{line}`: {told}"
            );
        }
    };
    said(&stage, "budget set session --max-cost 2").await;
    refused(
        format!("{submit} --session-max-cost 3"),
        "`budgets.session.cost_usd` is at most 2.00",
    )
    .await;
    let flags = "--session-max-cost 0.6 --task-max-cost 0.8 --task-max-tokens 1000000 --feature-max-cost 0.5";
    let ended = output(&stage, &format!("{submit} {flags} --wait")).await;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
    assert!(told.contains("the limit of feature"), "{told}");
    let table = said(&stage, "budget").await;
    let row = |words: &[&str]| {
        table
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(row(&["session", "each of g", "0.60 USD"]), "{table}");
    assert!(row(&["task", "each of g", "1000000 tokens"]), "{table}");
    assert!(row(&["feature", "g", "0.50 USD", "0.00 USD"]), "{table}");

    // A task of the feature has no more than each of them.
    refused(
        "submit task More --feature g --task-max-cost 1".to_owned(),
        "`budgets.task.cost_usd` is at most 0.80",
    )
    .await;
    refused(
        "submit task More --feature g --feature-max-cost 1".to_owned(),
        "give `budgets.task` alone",
    )
    .await;
    said(
        &stage,
        "submit task More --key more --feature g --description @done --task-max-cost 0.3",
    )
    .await;
    let table = said(&stage, "budget set task g --max-cost 0").await;
    assert!(
        table.contains("0.30 USD") && !table.contains("0.80 USD"),
        "{table}"
    );
    said(&stage, "budget set feature g --max-cost 0").await;
    said(&stage, "feature wait g").await;
    said(&stage, "feature delete g --yes").await;
    let table = said(&stage, "budget").await;
    assert!(
        !table.contains("0.60 USD") && !table.contains("0.30 USD"),
        "{table}"
    );
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

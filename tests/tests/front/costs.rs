//! Costs, budgets and estimates, as people and programs see them.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, stdout_of, wait_for_output};

#[tokio::test(flavor = "multi_thread")]
async fn costs_and_their_limits_are_shown() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: A, description: \"@usage 10 2 0.5\\n@write a.txt a\\n@done\"}\n\
                 - {key: b, title: B, after: [a], description: \"@usage 10 2 0.25\\n@write b.txt b\\n@done\"}\n\
                 - {key: c, title: C, after: [b], description: \"@write c.txt c\\n@done\"}\n";
    let graph = json!({"tasks": {"source": "t", "text": tasks}});
    stage.submit(graph).await;
    stage.ends("complete").await;
    let table = stdout_of(&stage, "cost --by task").await;
    for words in ["0.50 USD", "0.25 USD", "~0.00", "~0.75 USD"] {
        assert!(table.contains(words), "{table}");
    }
    assert!(!table.contains("0.00 "), "{table}");
    let shown: Value =
        serde_json::from_str(&stdout_of(&stage, "cost --by kind --output json").await).unwrap();
    assert_eq!(
        (&shown["items"][0]["key"], &shown["total"]["sessions"]),
        (&json!("work"), &json!(3)),
        "{shown}"
    );
    let csv = stdout_of(&stage, "cost --by feature --since 1h --csv").await;
    assert!(
        csv.lines().nth(1).is_some_and(|row| row.contains(",f,3,0.75")),
        "{csv}"
    );
    assert!(
        stdout_of(&stage, "cost --since 2999-01-01")
            .await
            .contains("nothing was spent")
    );
    let known = |name: &str| shown["total"][name].as_f64().unwrap_or_default();
    assert!(known("estimated_usd") > 0.0, "{shown}");
    assert!(
        (known("cost_usd") - known("estimated_usd") - 0.75).abs() < 1e-9,
        "{shown}"
    );
    let figures = stdout_of(&stage, "task show f/c").await;
    assert!(figures.contains("~0.00"), "{figures}");

    // A limit set while nothing runs holds the next sessions, and the status says so.
    let table = stdout_of(&stage, "budget set day --max-cost 0.6").await;
    assert!(
        table.contains("0.60 USD") && table.contains("-0.15 USD"),
        "{table}"
    );
    stdout_of(
        &stage,
        "task create More --feature f --description '@write d.txt d\n@done'",
    )
    .await;
    stdout_of(&stage, "feature run f").await;
    let words =
        "the limit of the day is used up: 0.75 USD of 0.60; `ralph budget set day --max-cost USD` changes it";
    wait_for_output(&stage, "status", words).await;
    assert!(stdout_of(&stage, "feature show f").await.contains(words));
    stdout_of(&stage, "budget set day --max-cost 0").await;
    stage.ends("complete").await;

    for (line, words) in [
        ("budget set week --max-cost 1", "`week` is no level of a budget"),
        ("budget set day --max-cost=-1", "a limit is 0 or more"),
        ("budget set day f --max-cost 1", "a limit of the day has no name"),
        ("budget set feature g --max-cost 1", "g"),
        ("cost --since yesterday", "give a time ago like 12h"),
    ] {
        let refused = output(&stage, line).await;
        let shown = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && shown.contains(words),
            "`{line}`: {shown}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_a_submission_hold_are_shown_and_can_be_changed() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: A, description: \"@usage 10 2 0.5\\n@done\"}\n\
                 - {key: b, title: B, after: [a], description: \"@done\"}\n";
    std::fs::write(stage.world.dir().join("tasks.yaml"), tasks).unwrap();
    let submit = "submit feature g --tasks tasks.yaml --no-repo --no-verify";
    let refused = |line: String, words: &'static str| {
        let stage = &stage;
        async move {
            let refused = output(stage, &line).await;
            let shown = String::from_utf8_lossy(&refused.stderr);
            assert!(
                !refused.status.success() && shown.contains(words),
                "`{line}`: {shown}"
            );
        }
    };
    stdout_of(&stage, "budget set session --max-cost 2").await;
    refused(
        format!("{submit} --session-max-cost 3"),
        "`budgets.session.cost_usd` is at most 2.00",
    )
    .await;
    let flags = "--session-max-cost 0.6 --task-max-cost 0.8 --task-max-tokens 1000000 --feature-max-cost 0.5";
    let ended = output(&stage, &format!("{submit} {flags} --wait")).await;
    let shown = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
    assert!(shown.contains("the limit of feature"), "{shown}");
    let table = stdout_of(&stage, "budget").await;
    let row = |words: &[&str]| {
        table
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(row(&["session", "each of g", "0.60 USD"]), "{table}");
    assert!(row(&["task", "each of g", "1000000 tokens"]), "{table}");
    assert!(row(&["feature", "g", "0.50 USD", "0.00 USD"]), "{table}");

    // A task's limits are at most those of its feature.
    refused(
        "submit task More --feature g --task-max-cost 1".to_owned(),
        "`budgets.task.cost_usd` is at most 0.80",
    )
    .await;
    refused(
        "submit task More --feature g --feature-max-cost 1".to_owned(),
        "give only `budgets.task`",
    )
    .await;
    stdout_of(
        &stage,
        "submit task More --key more --feature g --description @done --task-max-cost 0.3",
    )
    .await;
    let table = stdout_of(&stage, "budget set task g --max-cost 0").await;
    assert!(
        table.contains("0.30 USD") && !table.contains("0.80 USD"),
        "{table}"
    );
    stdout_of(&stage, "budget set feature g --max-cost 0").await;
    stdout_of(&stage, "feature wait g").await;
    stdout_of(&stage, "feature delete g --yes").await;
    let table = stdout_of(&stage, "budget").await;
    assert!(
        !table.contains("0.60 USD") && !table.contains("0.30 USD"),
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_estimated_from_earlier_tasks_of_its_repository() {
    let stage = Stage::start().await;
    let task = |n: usize| {
        format!("- {{key: k{n}, title: T{n}, description: \"@usage 10 2 0.5\\n@write f{n} x\\n@done\"}}\n")
    };
    let tasks: String = (0..3).map(task).collect();
    let at = |tasks: usize| format!("/estimate?repo_id=r&tasks={tasks}&side_by_side=2");
    let (status, shown) = stage.api.get(&at(4)).await;
    assert!(status.is_success() && shown["cost_usd"].is_null(), "{shown}");
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("complete").await;
    let (_, shown) = stage.api.get(&at(4)).await;
    assert_eq!(
        (&shown["cost_usd"], &shown["based_on"]),
        (&json!({"low": 2.0, "high": 2.0}), &json!(3)),
        "{shown}"
    );
    // A folder without finished tasks.
    std::fs::write(stage.world.dir().join("tasks.yaml"), "- {key: a, title: A}\n").unwrap();
    let drawn = stdout_of(&stage, "submit feature g --tasks tasks.yaml --dry-run").await;
    assert!(drawn.contains("unknown yet"), "{drawn}");
}

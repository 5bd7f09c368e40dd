//! What a person decides lets the run go on that ended for it, and the state that is shown is what it came to.

use ralph_tests::harness::until;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, said, started, until_told};

const PLANNED: &str = "@on-kind plan @say <document>One task.</document>\n\
    @on-kind build @say <<GRAPH\n<task-graph>\n- key: a\n  title: A\n  description: |\n    @write a.txt one\n    @done\n\
    </task-graph>\nGRAPH\n";
const FAILS: &str = "- {key: a, title: A, max_retries: 0, description: \"@on-attempt 1 @fail no\\n@write a.txt a\\n@done\"}\n";

async fn runs(stage: &Stage) -> usize {
    let (_, page) = stage.api.get("/runs").await;
    page["items"].as_array().unwrap().len()
}

/// The condition that the feature `f` is shown with, in a table and in JSON.
async fn condition(stage: &Stage) -> String {
    let (_, feature) = stage.api.get("/features/f").await;
    let condition = &feature["condition"];
    let word = condition["word"].as_str().unwrap().to_owned();
    let told = match condition["reason"].as_str() {
        Some(reason) => format!("{word}: {reason}"),
        None => word,
    };
    for line in ["feature list", "status", "feature show f"] {
        let shown = said(stage, line).await;
        assert!(shown.contains(&told), "`{line}` has no `{told}`: {shown}");
    }
    told
}

async fn submit_planned(stage: &Stage) {
    stage
        .submit(json!({"description": PLANNED, "spec": "Do it.", "approve": ["plan"], "review_rounds": 0}))
        .await;
    stage.ends("blocked").await;
}

async fn submit_tasks(stage: &Stage, tasks: &str, run: Value) {
    let more = json!({"tasks": {"source": "t", "text": tasks}, "run": run});
    stage.submit(more).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_lets_its_run_go_on() {
    let stage = Stage::set().await;
    submit_planned(&stage).await;
    assert_eq!(condition(&stage).await, "blocked: 1 needs you");
    let approved = output(&stage, "task approve f/plan").await;
    let told = String::from_utf8_lossy(&approved.stderr);
    assert!(told.contains("`f` goes on (run-"), "{told}");
    stage.ends("complete").await;
    assert_eq!(condition(&stage).await, "done");
    assert_eq!((stage.file("a.txt").as_str(), runs(&stage).await), ("one", 1));
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stays_ended_where_that_is_asked_for() {
    let stage = Stage::set().await;
    submit_planned(&stage).await;
    let approved = output(&stage, "task approve f/plan --no-run").await;
    let told = String::from_utf8_lossy(&approved.stderr);
    assert!(told.contains("next: ralph feature run f\n"), "{told}");
    assert_eq!(condition(&stage).await, "ready: needs a run");
    let glance = said(&stage, "status").await;
    assert!(glance.contains("1 feature needs you (`ralph inbox`)"), "{glance}");
    said(&stage, "feature run f").await;
    stage.ends("complete").await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_lets_the_run_go_on() {
    let stage = Stage::set().await;
    std::fs::write(
        stage.world.dir().join("plan.md"),
        "One task, as a person wrote it.",
    )
    .unwrap();
    for (line, outcome) in [
        ("task retry f/a", "complete"),
        ("task retry --all-of f", "complete"),
        ("task reject f/a --reason again", "complete"),
        ("task skip f/a", "complete"),
        ("task cancel f/a", "complete"),
        ("task done f/a", "complete"),
        ("task fail f/a", "failure"),
    ] {
        let tasks = json!({"source": "t", "text": FAILS});
        stage.submit(json!({"tasks": tasks, "repo": null})).await;
        stage.ends("blocked").await;
        said(&stage, line).await;
        stage.ends(outcome).await;
        assert_eq!(runs(&stage).await, 1, "`{line}`");
        said(&stage, "feature delete f --yes").await;
    }
    submit_planned(&stage).await;
    said(&stage, "feature plan f --file plan.md --yes").await;
    stage.ends("complete").await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_stopped_a_run_starts_the_next_one() {
    let stage = Stage::set().await;
    let tasks = format!("{FAILS}- {{key: b, title: B, pool: nowhere}}\n");
    submit_tasks(&stage, &tasks, json!({"backoff_ms": 0})).await;
    until("the first task to need a person", async || {
        let (_, feature) = stage.api.get("/features/f").await;
        match feature["tasks"]["needs_review"] == 1 {
            true => Ok(()),
            false => Err(feature.to_string()),
        }
    })
    .await;
    assert_eq!(condition(&stage).await, "running: 1 needs you");
    said(&stage, "feature stop f").await;
    assert_eq!(condition(&stage).await, "stopped: 1 needs you");
    said(&stage, "task retry f/a").await;
    assert_eq!(condition(&stage).await, "stopped");
    stage.strike().await;
}

const PAID: &str = "- {key: a, title: A, description: \"@on-attempt 1 @usage 10 2 0.6\\n@write a.txt a\\n@done\"}\n\
    - {key: b, title: B, after: [a], description: \"@write b.txt b\\n@done\"}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_limit_lets_its_run_go_on() {
    let stage = Stage::set().await;
    submit_tasks(&stage, PAID, json!({"cost_usd": 0.5, "backoff_ms": 0})).await;
    stage.ends("limit_reached").await;
    assert_eq!(condition(&stage).await, "limit: cost 0.60 of 0.50");
    let refused = output(&stage, "feature edit f --max-cost 0.55").await;
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        told.contains("no session of `f` could begin (cost 0.60 of 0.55)") && told.contains("0 for no limit"),
        "{told}"
    );
    said(&stage, "feature edit f --max-cost 2 --no-run").await;
    assert_eq!(condition(&stage).await, "ready: needs a run");
    said(&stage, "feature edit f --max-cost 3").await;
    stage.ends("complete").await;
    assert_eq!(runs(&stage).await, 1);
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_limit_of_the_feature_lets_its_run_go_on() {
    let stage = Stage::set().await;
    said(&stage, "budget set feature --max-cost 0.5").await;
    submit_tasks(&stage, PAID, json!({"backoff_ms": 0})).await;
    stage.ends("limit_reached").await;
    until("the limit to be shown", async || {
        let (_, feature) = stage.api.get("/features/f").await;
        match feature["condition"]["reason"] == "feature 0.60 USD of 0.50" {
            true => Ok(()),
            false => Err(feature["condition"].to_string()),
        }
    })
    .await;
    said(&stage, "budget set feature f --max-cost 2").await;
    stage.ends("complete").await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_on_through_what_a_person_decides() {
    let stage = Stage::set().await;
    submit_planned(&stage).await;
    let mut wait = started(&stage, "wait", "feature wait f --through-approvals");
    until_told(&wait, "ralph task approve f/plan").await;
    said(&stage, "task approve f/plan").await;
    until_told(&wait, "f: Complete").await;
    assert_eq!(wait.wait().await.code(), Some(0), "{}", wait.output());
    let refused = output(&stage, "feature run f --through-approvals").await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--wait"));
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_waits_for_approval_as_what_is_written_does() {
    let stage = Stage::set().await;
    let tasks = "- {key: a, title: A, description: \"@write a.txt a\\n@done\"}\n";
    std::fs::write(stage.world.dir().join("tasks.yaml"), tasks).unwrap();
    std::fs::write(stage.world.dir().join("plan.md"), "one task").unwrap();
    let submit = |name: &str, more: &str| {
        format!("submit feature {name} --tasks tasks.yaml --no-verify --no-repo {more}")
    };
    let waited = output(&stage, &submit("f", "--approve tasks --wait")).await;
    let told = String::from_utf8_lossy(&waited.stdout).into_owned();
    assert!(
        waited.status.code() == Some(4) && told.contains("ralph task approve f/build"),
        "{told}"
    );
    assert!(said(&stage, "feature tasks f").await.contains("key: a"));
    said(&stage, "task approve f/build").await;
    stage.ends("complete").await;
    // A plan that is given beside the tasks holds them as well.
    said(&stage, &submit("g", "--plan plan.md --approve plan")).await;
    let blocked = output(&stage, "feature wait g").await;
    assert_eq!(blocked.status.code(), Some(4));
    said(&stage, "task approve g/plan").await;
    assert!(output(&stage, "feature wait g").await.status.success());
    let refused = output(&stage, &submit("h", "--approve spec")).await;
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("there is no spec to approve"), "{told}");
    stage.strike().await;
}

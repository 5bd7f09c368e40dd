//! A person's decision continues the run that ended for it, and the shown state follows.

use ralph_tests::harness::until;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, started, stdout_of, wait_for_words};

const PLANNED: &str = "@on-kind plan @say <document>One task.</document>\n\
    @on-kind build @say <<GRAPH\n<task-graph>\n- key: a\n  title: A\n  description: |\n    @write a.txt one\n    @done\n\
    </task-graph>\nGRAPH\n";
const FAILS: &str = "- {key: a, title: A, max_retries: 0, description: \"@on-attempt 1 @fail no\\n@write a.txt a\\n@done\"}\n";

async fn runs(stage: &Stage) -> usize {
    let (_, page) = stage.api.get("/runs").await;
    page["items"].as_array().unwrap().len()
}

/// The condition of the feature `f`, checked in tables too.
async fn condition(stage: &Stage) -> String {
    let (_, feature) = stage.api.get("/features/f").await;
    let condition = &feature["condition"];
    let word = condition["word"].as_str().unwrap().to_owned();
    let text = match condition["reason"].as_str() {
        Some(reason) => format!("{word}: {reason}"),
        None => word,
    };
    for line in ["feature list", "status", "feature show f"] {
        let shown = stdout_of(stage, line).await;
        assert!(shown.contains(&text), "`{line}` has no `{text}`: {shown}");
    }
    text
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
async fn an_approval_continues_its_run() {
    let stage = Stage::start().await;
    submit_planned(&stage).await;
    assert_eq!(condition(&stage).await, "blocked: 1 needs you");
    let approved = output(&stage, "task approve f/plan").await;
    let text = String::from_utf8_lossy(&approved.stderr);
    assert!(text.contains("`f` goes on (run-"), "{text}");
    stage.ends("complete").await;
    assert_eq!(condition(&stage).await, "done");
    assert_eq!((stage.file("a.txt").as_str(), runs(&stage).await), ("one", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_with_no_run_leaves_the_run_ended() {
    let stage = Stage::start().await;
    submit_planned(&stage).await;
    let approved = output(&stage, "task approve f/plan --no-run").await;
    let text = String::from_utf8_lossy(&approved.stderr);
    assert!(text.contains("next: ralph feature run f\n"), "{text}");
    assert_eq!(condition(&stage).await, "ready: needs a run");
    let glance = stdout_of(&stage, "status").await;
    assert!(glance.contains("1 feature needs you (`ralph inbox`)"), "{glance}");
    stdout_of(&stage, "feature run f").await;
    stage.ends("complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_continues_the_run() {
    let stage = Stage::start().await;
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
        stdout_of(&stage, line).await;
        stage.ends(outcome).await;
        assert_eq!(runs(&stage).await, 1, "`{line}`");
        stdout_of(&stage, "feature delete f --yes").await;
    }
    submit_planned(&stage).await;
    stdout_of(&stage, "feature plan f --file plan.md --yes").await;
    stage.ends("complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_does_not_continue_a_stopped_run() {
    let stage = Stage::start().await;
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
    stdout_of(&stage, "feature stop f").await;
    assert_eq!(condition(&stage).await, "stopped: 1 needs you");
    stdout_of(&stage, "task retry f/a").await;
    assert_eq!(condition(&stage).await, "stopped");
}

const PAID: &str = "- {key: a, title: A, description: \"@on-attempt 1 @usage 10 2 0.6\\n@write a.txt a\\n@done\"}\n\
    - {key: b, title: B, after: [a], description: \"@write b.txt b\\n@done\"}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_limit_continues_its_run() {
    let stage = Stage::start().await;
    submit_tasks(&stage, PAID, json!({"cost_usd": 0.5, "backoff_ms": 0})).await;
    stage.ends("limit_reached").await;
    assert_eq!(condition(&stage).await, "limit: cost 0.60 of 0.50");
    let refused = output(&stage, "feature edit f --max-cost 0.55").await;
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        text.contains("no session of `f` could begin (cost 0.60 of 0.55)") && text.contains("0 for no limit"),
        "{text}"
    );
    stdout_of(&stage, "feature edit f --max-cost 2 --no-run").await;
    assert_eq!(condition(&stage).await, "ready: needs a run");
    stdout_of(&stage, "feature edit f --max-cost 3").await;
    stage.ends("complete").await;
    assert_eq!(runs(&stage).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_budget_of_the_feature_continues_its_run() {
    let stage = Stage::start().await;
    stdout_of(&stage, "budget set feature --max-cost 0.5").await;
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
    stdout_of(&stage, "budget set feature f --max-cost 2").await;
    stage.ends("complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_command_waits_through_approvals() {
    let stage = Stage::start().await;
    submit_planned(&stage).await;
    let mut wait = started(&stage, "wait", "feature wait f --through-approvals");
    wait_for_words(&wait, "ralph task approve f/plan").await;
    stdout_of(&stage, "task approve f/plan").await;
    wait_for_words(&wait, "f: Complete").await;
    assert_eq!(wait.wait().await.code(), Some(0), "{}", wait.output());
    let refused = output(&stage, "feature run f --through-approvals").await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--wait"));
}

#[tokio::test(flavor = "multi_thread")]
async fn given_plans_and_tasks_wait_for_approval_too() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: A, description: \"@write a.txt a\\n@done\"}\n";
    std::fs::write(stage.world.dir().join("tasks.yaml"), tasks).unwrap();
    std::fs::write(stage.world.dir().join("plan.md"), "one task").unwrap();
    let submit = |name: &str, more: &str| {
        format!("submit feature {name} --tasks tasks.yaml --no-verify --no-repo {more}")
    };
    let waited = output(&stage, &submit("f", "--approve tasks --wait")).await;
    let text = String::from_utf8_lossy(&waited.stdout).into_owned();
    assert!(
        waited.status.code() == Some(4) && text.contains("ralph task approve f/build"),
        "{text}"
    );
    assert!(stdout_of(&stage, "feature tasks f").await.contains("key: a"));
    stdout_of(&stage, "task approve f/build").await;
    stage.ends("complete").await;
    // A plan given with the tasks holds them back too.
    stdout_of(&stage, &submit("g", "--plan plan.md --approve plan")).await;
    let blocked = output(&stage, "feature wait g").await;
    assert_eq!(blocked.status.code(), Some(4));
    stdout_of(&stage, "task approve g/plan").await;
    assert!(output(&stage, "feature wait g").await.status.success());
    let refused = output(&stage, &submit("h", "--approve spec")).await;
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("there is no spec to approve"), "{text}");
}

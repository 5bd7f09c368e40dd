//! The command of `next`, run in each state that has one: it must change something.

use ralph_tests::harness::{Terminal, binary, until};
use serde_json::{Value, json};

use crate::caller::ADMIN;
use crate::stage::Stage;
use crate::typed::{output, stdout_of};

/// The parts of a feature that its `next` command may change, and `next` itself.
async fn state_and_next(stage: &Stage) -> (Value, Value) {
    let (_, progress) = stage.api.get("/features/f/progress").await;
    let feature = &progress["feature"];
    let state = json!([
        feature["status"],
        feature["condition"],
        feature["tasks"],
        feature["run"]["id"],
        feature["run"]["limits"],
        feature["run"]["outcome"],
    ]);
    (state, progress["next"].clone())
}

/// Waits for the condition, runs the next command, and checks that something changed.
async fn check(stage: &Stage, condition: &str, command: &str) {
    until(&format!("`f` to be {condition}"), async || {
        let (state, next) = state_and_next(stage).await;
        let is = &state[1];
        let is = match is["reason"].as_str() {
            Some(reason) => format!("{}: {reason}", is["word"].as_str().unwrap()),
            None => is["word"].as_str().unwrap().to_owned(),
        };
        match is == condition {
            true => Ok(()),
            false => Err(format!("{is}, next {next}")),
        }
    })
    .await;
    let (before, next) = state_and_next(stage).await;
    assert_eq!(next["command"], format!("ralph {command}"), "{before} {next}");
    let shown = stdout_of(stage, "feature show f").await;
    assert!(shown.contains(&format!("ralph {command}\n")), "{shown}");
    let pasted = output(stage, command).await;
    let stderr = String::from_utf8_lossy(&pasted.stderr);
    assert!(pasted.status.success(), "`{command}`: {stderr}");
    let (after, _) = state_and_next(stage).await;
    assert_ne!(
        before, after,
        "`{command}` changed nothing in the state {condition}"
    );
}

async fn submit(stage: &Stage, tasks: &str, more: Value) {
    let mut body = json!({"tasks": {"source": "t", "text": tasks}, "repo": null});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    stage.submit(body).await;
}

async fn remove(stage: &Stage) {
    stdout_of(stage, "feature cancel f --yes").await;
    until("`f` to be deleted", async || {
        let deleted = output(stage, "feature delete f --yes").await;
        match deleted.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&deleted.stderr).into_owned()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_command_changes_something_in_each_state() {
    let stage = Stage::start().await;
    let waits = "- {key: a, title: A, pool: nowhere}\n";
    let fails = "- {key: a, title: A, max_retries: 0, description: \"@fail no\"}\n";
    let costs = "- {key: a, title: A, description: \"@usage 10 2 0.6\\n@write a.txt a\\n@done\"}\n\
                 - {key: b, title: B, after: [a], pool: nowhere}\n";

    submit(&stage, waits, json!({"draft": true})).await;
    check(&stage, "draft", "feature run f").await;
    stdout_of(&stage, "feature pause f").await;
    check(&stage, "paused", "feature resume f").await;
    stdout_of(&stage, "feature stop f").await;
    check(&stage, "stopped", "feature run f").await;
    remove(&stage).await;

    stage
        .submit(json!({"draft": true, "description": "An idea", "repo": null}))
        .await;
    check(&stage, "draft", "feature run f").await;
    remove(&stage).await;

    submit(&stage, fails, json!({})).await;
    check(&stage, "blocked: 1 needs you", "task retry f/a").await;
    until("`f` to be blocked again", async || {
        let (state, _) = state_and_next(&stage).await;
        if state[1]["word"] == "blocked" {
            Ok(())
        } else {
            Err(state.to_string())
        }
    })
    .await;
    stdout_of(&stage, "task retry f/a --no-run").await;
    check(&stage, "ready: needs a run", "feature run f").await;
    remove(&stage).await;

    submit(&stage, fails, json!({"run": {"review": false, "backoff_ms": 0}})).await;
    check(&stage, "failed: 1 task failed", "task retry f/a").await;
    remove(&stage).await;

    let limit = json!({"run": {"cost_usd": 0.5, "backoff_ms": 0}});
    submit(&stage, costs, limit).await;
    check(
        &stage,
        "limit: cost 0.60 of 0.50",
        "feature edit f --max-cost 1.10",
    )
    .await;
    remove(&stage).await;

    let two =
        "- {key: a, title: A, description: \"@done\"}\n- {key: b, title: B, after: [a], pool: nowhere}\n";
    submit(&stage, two, json!({"run": {"iterations": 1, "backoff_ms": 0}})).await;
    check(&stage, "limit: 1 of 1 iterations", "feature edit f --limit 2").await;
    remove(&stage).await;

    submit(
        &stage,
        &format!("{waits}- {{key: b, title: B, after: [a]}}\n"),
        json!({}),
    )
    .await;
    stdout_of(&stage, "task cancel f/a").await;
    check(
        &stage,
        "blocked: 1 task waits for a cancelled one",
        "task skip f/a",
    )
    .await;
    remove(&stage).await;

    // One task needs a person while others run.
    submit(
        &stage,
        &format!("{fails}- {{key: b, title: B, pool: nowhere}}\n"),
        json!({}),
    )
    .await;
    check(&stage, "running: 1 needs you", "task retry f/a").await;
    remove(&stage).await;

    let gives_up = "- {key: a, title: A, description: \"@say <promise>FAILURE</promise>\\n@fail no\"}\n\
                    - {key: b, title: B, pool: nowhere}\n";
    submit(&stage, gives_up, json!({})).await;
    check(&stage, "failed: an agent gave it up", "feature run f").await;
    remove(&stage).await;

    stdout_of(&stage, "budget set day --max-cost 0.01").await;
    submit(&stage, fails, json!({})).await;
    until("the day's limit to hold", async || {
        let (state, _) = state_and_next(&stage).await;
        if state[1]["word"] == "limit" {
            Ok(())
        } else {
            Err(state.to_string())
        }
    })
    .await;
    let (state, next) = state_and_next(&stage).await;
    let command = next["command"].as_str().unwrap().trim_start_matches("ralph ");
    assert!(command.starts_with("budget set day --max-cost "), "{next}");
    check(
        &stage,
        &format!("limit: {}", state[1]["reason"].as_str().unwrap()),
        command,
    )
    .await;
    stdout_of(&stage, "budget set day --max-cost 0").await;
    remove(&stage).await;

    let given = json!({"draft": true, "plan": "One task.", "approve": ["plan"], "repo": null});
    stage.submit(given).await;
    check(&stage, "draft: 1 needs you", "task approve f/plan").await;
    remove(&stage).await;

    // The step that makes the tasks was cancelled.
    stage.submit(json!({"plan": "One task.", "repo": null})).await;
    stdout_of(&stage, "task cancel f/build").await;
    stage.ends("no_plan").await;
    let (_, build) = stage.api.get("/tasks/f%2Fbuild").await;
    let command = format!("task retry {}", build["id"].as_str().unwrap());
    check(&stage, "blocked: its steps made no tasks", &command).await;
    remove(&stage).await;

    let description = "@on-kind plan @say <document>One.</document>\n";
    let more = json!({"description": description, "spec": "Do it.", "approve": ["plan"], "review_rounds": 0});
    stage.submit(more).await;
    check(&stage, "blocked: 1 needs you", "task approve f/plan").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_command_of_an_empty_draft_gives_it_a_plan() {
    let stage = Stage::start().await;
    stage.submit(json!({"draft": true})).await;
    let (_, next) = state_and_next(&stage).await;
    assert_eq!(next["command"], "ralph feature plan f --edit");
    let mut command = std::process::Command::new(binary("ralph"));
    command
        .args(["feature", "plan", "f", "--edit"])
        .current_dir(stage.world.dir())
        .env("EDITOR", "echo One task. >")
        .env_remove("VISUAL")
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    let (status, shown) = tokio::task::spawn_blocking(move || Terminal::open(&command).end())
        .await
        .unwrap();
    assert!(status.success(), "{shown}");
    assert_eq!(state_and_next(&stage).await.1["command"], "ralph feature run f");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_that_continues_by_itself_or_has_ended_has_no_next() {
    let stage = Stage::start().await;
    submit(&stage, "- {key: a, title: A, pool: nowhere}\n", json!({})).await;
    assert_eq!(state_and_next(&stage).await.1, Value::Null);
    stdout_of(&stage, "task skip f/a").await;
    stage.ends("complete").await;
    assert_eq!(state_and_next(&stage).await.1, Value::Null);
    stdout_of(&stage, "task create More --feature f").await;
    stdout_of(&stage, "feature run f --at 2h").await;
    let (state, next) = state_and_next(&stage).await;
    assert_eq!((&state[1]["word"], next), (&json!("scheduled"), Value::Null));
    stdout_of(&stage, "feature cancel f --yes").await;
    assert_eq!(state_and_next(&stage).await.1, Value::Null);
}

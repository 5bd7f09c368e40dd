//! The morning after: one page with five features, sixty tasks, two that wait, one that failed and one at its
//! limit.

use std::sync::Arc;
use std::time::Duration;

use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_tests::harness::{Browser, WorkerOptions, until};
use serde_json::{Value, json};

use crate::caller::{ADMIN, ended};
use crate::guest::link;
use crate::stage::Stage;

/// Most clicks until everything runs again.
const CLICKS: usize = 5;

/// Name, script of the twelfth and last task, and further fields of the submission.
fn features(repo: &Value) -> [(&'static str, &'static str, Value); 5] {
    let asks = "@unless-prompt-has By day : @say <question choices=\"By day|By name\">In which order?</question>\n\
                @if-prompt-has By day : @done";
    let protected = "@write .github/workflows/test.yml on: push\n@done";
    let fails = "@on-attempt 1 @fail The host doesn't answer\n@done";
    [
        ("reports", "@done", json!({})),
        ("search", asks, json!({})),
        ("export", protected, json!({ "repo": repo, "verify": true })),
        (
            "import",
            fails,
            json!({ "run": { "backoff_ms": 0, "review": false } }),
        ),
        (
            "mail",
            "@done",
            json!({ "run": { "backoff_ms": 0, "iterations": 8 } }),
        ),
    ]
}

async fn submit(stage: &Stage, name: &str, last: &str, more: &Value) {
    let tasks: Vec<Value> = (1..=12)
        .map(|n| {
            let script = if n == 12 { last } else { "@usage 900 120 0.02\n@done" };
            json!({ "key": format!("part-{n}"), "title": format!("Part {n} of {name}"), "description": script })
        })
        .collect();
    let text = json!(tasks).to_string();
    let mut body = json!({
        "name": name, "verify": false, "max_retries": 0, "run": { "backoff_ms": 0 }, "tasks": { "source": "t", "text": text },
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    let (status, answer) = stage.api.post("/features", &body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_morning_takes_one_page_and_five_clicks() {
    if !Browser::is_installed().await {
        return;
    }
    let asks = PromptOptions {
        people: true,
        ..PromptOptions::default()
    };
    let options = WorkerOptions::named("w").slots(5);
    let stage = Stage::with_settings(&options, &[("README.md", "begin\n")], "", |settings| {
        settings.question_wait = Duration::from_secs(600);
        settings.templates = Arc::new(Templates::load(None, asks).unwrap());
    })
    .await;
    let base = stage.repository.head("main").unwrap();
    let repo =
        json!({ "address": stage.repository.path(), "id": "r", "base_ref": "main", "base_commit": base });
    let features = features(&repo);
    for (name, last, more) in &features {
        submit(&stage, name, last, more).await;
    }
    // At night, everything runs that needs no person.
    until("four inbox items", async || {
        let (_, inbox) = stage.api.get("/inbox").await;
        let kinds: Vec<&str> = inbox["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|item| item["kind"].as_str())
            .collect();
        let is_all = kinds == ["approval", "question", "failed", "limit"] && inbox["tasks"]["done"] == 53;
        is_all.then_some(()).ok_or(inbox)
    })
    .await;

    let browser = Browser::open().await;
    browser.go(&link(&stage.api, ADMIN).await).await;
    browser.shows("53 of 60 tasks done").await;
    let text = browser.text().await;
    for words in [
        "changes protected files: .github/workflows/test.yml",
        "+on: push",
        "In which order?",
        "The host doesn't answer",
        "8 of 8 iterations",
        "spent",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    browser
        .click("article.k-approval form[action='/do/task/approve'] button")
        .await;
    browser.shows("Approved").await;
    browser.click("article.k-question button[value='1']").await;
    browser.shows("Answered").await;
    browser.click("article.k-failed details.act summary").await;
    browser
        .click("article.k-failed details.act[open] form button")
        .await;
    browser.shows("The task will be tried again").await;
    browser.click("article.k-limit form button").await;
    browser.shows("The limit is raised").await;
    assert!(browser.clicks() <= CLICKS, "{} clicks", browser.clicks());
    for (name, ..) in &features {
        let over = ended(&stage.api, name).await;
        assert_eq!(
            over["feature"]["run"]["outcome"],
            "complete",
            "{}",
            stage.world.tell().await
        );
    }
    browser.shows("Nothing waits for you").await;
    browser.shows("60 of 60 tasks done").await;
    assert_eq!(
        browser.run("return location.pathname").await,
        "/",
        "everything is on one page"
    );
    browser.close().await;
}

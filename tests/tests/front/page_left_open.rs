//! Pages left open over a coordinator restart, beyond their session, and during another person's decision.

use std::sync::Arc;
use std::time::Duration;

use ralph_coordinator::api;
use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_coordinator::store::access::Role;
use ralph_tests::harness::{Browser, WorkerOptions, World, until};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::caller::ADMIN;
use crate::guest::{Guest, SUBMIT, link};
use crate::restart::{address, client};
use crate::stage::Stage;

async fn post(at: &str, path: &str, body: Value) -> Value {
    let request = client()
        .post(format!("http://{at}/api/v1{path}"))
        .bearer_auth(ADMIN);
    let answer = request.body(body.to_string()).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_survives_a_restart_and_an_expired_session() {
    if !Browser::is_installed().await {
        return;
    }
    let world = World::calm().await.unwrap();
    api::register_token(&world.db, "admin", ADMIN, Role::Admin)
        .await
        .unwrap();
    let mut coordinator = world.coordinator_process("first", None).unwrap();
    let at = address(&coordinator).await;
    let feature = |name: &str| json!({"name": name, "tasks": {"source": "t", "text": "- {key: a, title: A, pool: nobody}"}});
    post(&at, "/features", feature("f")).await;
    let browser = Browser::open().await;
    let link = post(&at, "/logins", json!({})).await;
    browser
        .go(&format!("http://{at}{}", link["path"].as_str().unwrap()))
        .await;
    browser.shows("Needs you").await;
    browser.go(&format!("http://{at}/features/f")).await;
    browser.shows("running").await;
    browser
        .run("window.before = document.querySelector('main')")
        .await;

    coordinator.kill();
    browser
        .shows("The connection is lost; this page may be old.")
        .await;
    let coordinator = world.coordinator_at(&at, "second", None).unwrap();
    address(&coordinator).await;
    post(&at, "/features/f/cancel", json!({})).await;
    browser.shows("cancelled").await;
    until("the page to drop its warning", async || {
        let text = browser.text().await;
        (!text.contains("The connection is lost"))
            .then_some(())
            .ok_or(text)
    })
    .await;
    let same = "return window.before === document.querySelector('main')";
    assert_eq!(browser.run(same).await, true, "the page must not reload");

    browser.go(&format!("http://{at}/log?since=7d")).await;
    browser.shows("What happened").await;
    sqlx::query("update page_logins set expires_at = now()")
        .execute(&world.db)
        .await
        .unwrap();
    post(&at, "/features", feature("g")).await;
    browser.shows("Or paste a token").await;
    browser.write("#token", ADMIN).await;
    browser.click("main form button").await;
    browser.shows("What happened").await;
    assert_eq!(browser.address().await, format!("http://{at}/log?since=7d"));
    browser.close().await;
    drop(coordinator);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_long_session_stays_small_and_scrolls_back() {
    if !Browser::is_installed().await {
        return;
    }
    let stage = Stage::start().await;
    let (begin, end) = (stage.world.gate("begin"), stage.world.gate("end"));
    let script = format!(
        "@say The first word.\n@stream 100\n@wait-for {}\n@stream 3000\n@say The last word.\n@wait-for {}\n@done",
        begin.display(),
        end.display()
    );
    let tasks = json!([{"key": "a", "title": "A", "description": script}]);
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    let browser = Browser::open().await;
    browser.go(&link(&stage.api, ADMIN).await).await;
    browser.shows("Running now").await;
    browser.click("#running td.main a").await;
    browser.shows("The first word.").await;
    let has = async |words: &str| {
        until(words, async || {
            let script = format!("return document.querySelector('#session').textContent.includes({words:?})");
            browser.run(&script).await == true
        })
        .await;
    };
    let entries = async || {
        browser
            .run("return document.querySelectorAll('.transcript > li').length")
            .await
            .as_u64()
            .unwrap()
    };
    until("enough entries to fill a window", async || entries().await >= 70).await;
    // A reader at the end follows new entries; the page drops earlier ones.
    browser.run("scrollTo(0, document.body.scrollHeight)").await;
    std::fs::write(&begin, "").unwrap();
    has("The last word.").await;
    let shown = entries().await;
    assert!(shown < 1_300, "{shown} entries");
    assert!(!browser.text().await.contains("The first word."));
    let up = "const room = -document.getElementById('earlier').getBoundingClientRect().bottom;
              scrollBy(0, -Math.max(0, Math.min(2000, room - 200)));
              return document.querySelector('#session').textContent.includes('The first word.')";
    until("the beginning", async || browser.run(up).await == true).await;
    let read = entries().await;
    assert!(read >= 2_300, "{read} entries");
    std::fs::write(&end, "").unwrap();
    stage.ends("complete").await;
    has("Nothing more will come").await;
    // A reopened page shows the end first.
    browser.go(&browser.address().await).await;
    has("The last word.").await;
    assert!(entries().await <= 400);
    let complaints = browser.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");
    browser.close().await;
}

/// Value of a field in the page's form for this action.
fn field(page: &str, action: &str, name: &str) -> String {
    let (_, form) = page
        .split_once(&format!("action=\"{action}\""))
        .unwrap_or_else(|| panic!("{page}"));
    let (_, value) = form.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    value.split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_decisions_is_refused_with_the_first() {
    let asks = PromptOptions {
        people: true,
        ..PromptOptions::default()
    };
    let options = WorkerOptions::named("w").slots(2);
    let stage = Stage::with_settings(&options, &[("README.md", "begin\n")], "", |settings| {
        settings.question_wait = Duration::from_secs(600);
        settings.templates = Arc::new(Templates::load(None, asks).unwrap());
    })
    .await;
    let question = "@unless-prompt-has Postgres : @say <question choices=\"Postgres|SQLite & co\">Which <img src=x> \\e[31m\u{202e}database?</question>\n\
                    @if-prompt-has Postgres : @done";
    let tasks = json!([
        {"key": "a", "title": "A", "description": question},
        {"key": "b", "title": "B", "description": "@write .github/workflows/t.yml on: push\n@done"},
    ]);
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    until("two inbox items", async || {
        let (_, inbox) = stage.api.get("/inbox").await;
        (inbox["items"].as_array().unwrap().len() == 2)
            .then_some(())
            .ok_or(inbox)
    })
    .await;
    let (one, other) = (
        Guest::logged_in(&stage.api, ADMIN).await,
        Guest::logged_in(&stage.api, SUBMIT).await,
    );
    let (page, seen) = (
        one.get("/").await.text().await.unwrap(),
        other.get("/").await.text().await.unwrap(),
    );
    for text in ["Which &lt;img src=x&gt; database?", "SQLite &amp; co</button>"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let approval = "/do/task/approve";
    let of = field(&page, approval, "of");
    let (mine, theirs) = (field(&page, approval, "csrf"), field(&seen, approval, "csrf"));
    let (mine, theirs) = (("csrf", mine.as_str()), ("csrf", theirs.as_str()));
    let (mine_form, their_form) = ([mine, ("of", &of)], [theirs, ("of", &of)]);
    let (first, second) = tokio::join!(
        one.post(approval, &mine_form, &[]),
        other.post(approval, &their_form, &[])
    );
    let mut both = [first, second];
    both.sort_by_key(reqwest::Response::status);
    assert_eq!(both[0].status(), StatusCode::SEE_OTHER);
    assert_eq!(both[1].status(), StatusCode::CONFLICT);
    let [_, second] = both;
    let refusal = second.text().await.unwrap();
    assert!(
        refusal.contains("The last change of the task: approve, by "),
        "{refusal}"
    );

    let answer = "/do/task/answer";
    let (of, id) = (field(&page, answer, "of"), field(&page, answer, "question"));
    let question = [("of", of.as_str()), ("question", id.as_str())];
    let first = [mine, question[0], question[1], ("choice", "1")];
    assert_eq!(
        one.post(answer, &first, &[]).await.status(),
        StatusCode::SEE_OTHER
    );
    let second = [theirs, question[0], question[1], ("choice", "2")];
    let late = other.post(answer, &second, &[]).await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    let refusal = late.text().await.unwrap();
    for word in ["answered that already", "Postgres", "admin"] {
        assert!(refusal.contains(word), "{word}: {refusal}");
    }
    stage.ends("complete").await;
}

//! The page in a real browser, from the login to what landed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ralph_tests::harness::{Browser, until};
use serde_json::json;

use crate::caller::{ADMIN, Api, ended};
use crate::guest::{HOSTILE, link};
use crate::stage::Stage;

/// Where pictures are kept, if they are asked for.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("RALPH_PAGE_PICTURES")
        .map(|_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/page"))
}

async fn picture(browser: &Browser, name: &str) {
    let Some(dir) = pictures() else { return };
    browser
        .picture(&dir.join(format!("{name}-light.png")), false, 1280, 860)
        .await;
    browser
        .picture(&dir.join(format!("{name}-dark.png")), true, 1280, 860)
        .await;
    browser
        .picture(&dir.join(format!("{name}-phone.png")), false, 360, 780)
        .await;
}

/// What a person submits: an idea, whose plan waits for approval, and of whose tasks one waits to be let go and one fails at first.
fn idea(gate: &Path) -> String {
    let graph = format!(
        r#"<task-graph>
- key: parse
  title: Read the due date from the command line
  description: |
    @think The parser takes one flag after the other; a date is one more.
    @say I read the parser and its tests.
    @usage 18200 640 0.21
    @run echo 'error: no such flag: --due' && false
    @wait-for {}
    @say It is read now, with tests.
    @usage 9400 1310 0.17
    @write parse.txt parsed
    @done
- key: list
  title: List what is late
  max_retries: 0
  after: [parse]
  description: |
    @usage 7100 420 0.09
    @on-attempt 1 @fail Which order?
    @write list.txt sorted
    @done
- key: docs
  title: Say so in the manual
  after: [parse]
  description: |
    @usage 5200 380 0.06
    @write docs.txt text
    @done
</task-graph>"#,
        gate.display()
    );
    format!(
        "@on-kind plan @say <document>1. Read the date: --due takes a day.\\n2. List what is late, <b>sorted</b>.\\n3. Say so in \
         the manual.</document>\n@on-kind build @say <<GRAPH\n{graph}\nGRAPH\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_approves_a_plan_watches_it_live_and_sends_work_back_in_a_browser() {
    if !Browser::is_installed().await {
        return;
    }
    let stage = Stage::set().await;
    let gate = stage.world.gate("page");
    let ends = async |outcome: &str| {
        let over = ended(&stage.api, "due-dates").await;
        assert_eq!(
            over["feature"]["run"]["outcome"],
            outcome,
            "{}",
            stage.world.tell().await
        );
    };
    stage
        .submit(json!({
            "name": "due-dates", "description": idea(&gate), "spec": "Items may have a due date.", "approve": ["plan"],
            "review_rounds": 0, "verify": true,
        }))
        .await;
    ends("blocked").await;

    let browser = Browser::open().await;
    browser.go(&format!("{}/log", stage.api.url)).await;
    browser.shows("Or paste a token").await;
    browser.go(&link(&stage.api, ADMIN).await).await;
    browser.shows("Needs you").await;
    browser.shows("1. Read the date: --due takes a day.").await;
    browser.shows("<b>sorted</b>").await;
    picture(&browser, "inbox").await;

    // Approved, it goes on by itself; the page is left open and shows what comes.
    browser.click("form[action='/do/task/approve'] button").await;
    browser.shows("Approved; the run goes on").await;
    browser.shows("Running now").await;
    browser.shows("Read the due date from the command line").await;
    browser.click("#running td.main a").await;
    browser.shows("I read the parser and its tests.").await;
    browser.shows("a date is one more").await;
    browser.shows("error: no such flag").await;
    picture(&browser, "task").await;
    browser.write("input[type=search]", "parser").await;
    assert!(!browser.text().await.contains("error: no such flag"));
    // What is typed stays while the page changes.
    std::fs::write(&gate, "").unwrap();
    until("the end of the session", async || {
        let text = browser
            .run("return document.querySelector('#transcript').textContent")
            .await;
        let text = text.as_str().unwrap_or_default().to_owned();
        if text.contains("It is read now, with tests.") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    assert_eq!(
        browser
            .run("return document.querySelector('input[type=search]').value")
            .await,
        "parser"
    );

    // Without a click or a reload: what failed comes into the inbox.
    browser.go(&stage.api.url).await;
    browser.shows("List what is late").await;
    browser.shows("Which order?").await;
    ends("blocked").await;
    browser.go(&format!("{}/features/due-dates", stage.api.url)).await;
    browser.shows("Which order?").await;
    picture(&browser, "feature").await;
    browser.go(&stage.api.url).await;
    browser.click("article.item details.act summary").await;
    browser
        .write(
            "article.item details.act[open] textarea",
            "In ascending order, by day",
        )
        .await;
    browser.click("article.item details.act[open] form button").await;
    browser.shows("It is tried again; the run goes on").await;
    ends("complete").await;
    browser.shows("Nothing waits for you").await;

    // By keys to the feature, to what happened, and to what changed.
    browser.press("gf").await;
    browser.shows("Features").await;
    browser.press("j\u{E007}").await;
    browser.shows("Graph").await;
    let done = "return document.querySelectorAll('.graph .n-done').length";
    assert_eq!(browser.run(done).await, 5);
    browser.click("nav.parts a[href$='/landed']").await;
    browser.click("li.landed details summary").await;
    browser.shows("+sorted").await;
    for (key, words) in [("w", "Slots"), ("m", "Landed with memory"), ("s", "in force")] {
        browser.press(&format!("g{key}")).await;
        browser.shows(words).await;
    }
    browser.press("gl").await;
    browser.shows("What happened").await;
    browser.shows("Landed").await;
    picture(&browser, "log").await;
    browser.press("?").await;
    browser.shows("to the next or the previous item").await;
    browser.press("\u{E00C}").await;
    browser.click("ol.events li.e-landed a[data-open]").await;
    browser.shows("Sessions").await;
    browser.click("nav.parts a[href$='/diff']").await;
    browser.shows("compared with").await;
    looks_at_what_is_hostile(&stage.api, &browser).await;
    let complaints = browser.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");

    // A session that expired asks to log in again, and leads back.
    sqlx::query("update page_logins set expires_at = now()")
        .execute(&stage.world.db)
        .await
        .unwrap();
    let address = format!("{}/features/hostile", stage.api.url);
    browser.go(&address).await;
    browser.shows("Or paste a token").await;
    browser.write("#token", ADMIN).await;
    browser.click("main form button").await;
    browser.shows("Graph").await;
    assert_eq!(browser.address().await, address);
    browser.close().await;
    stage.strike().await;
}

/// A title that would be a script stays text, and a page that is left open shows soon what changes.
async fn looks_at_what_is_hostile(api: &Api, browser: &Browser) {
    let tasks = json!([{"key": "a", "title": HOSTILE}]).to_string();
    api.submit("hostile", &tasks).await;
    browser.go(&format!("{}/features/hostile", api.url)).await;
    browser
        .shows("<script>document.title='taken'</script><b>bold</b>")
        .await;
    assert_eq!(browser.run("return document.title").await, "hostile · Ralph");
    assert_eq!(
        browser
            .run("return document.querySelectorAll('main b').length")
            .await,
        0
    );
    // The stream is open when it has told its first event.
    browser
        .run("window.before = document.querySelector('main')")
        .await;
    let began = Instant::now();
    let (status, answer) = api.post("/features/hostile/cancel", &json!({})).await;
    assert!(status.is_success(), "{answer}");
    browser.shows("cancelled").await;
    println!("a change was seen after {:?}", began.elapsed());
    assert_eq!(
        browser
            .run("return window.before === document.querySelector('main')")
            .await,
        true,
        "it was not loaded anew"
    );
}

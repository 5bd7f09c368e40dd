//! The web page in a real browser, from a sentence to a merged branch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_tests::harness::{Browser, Repository, WorkerOptions, World, until};
use serde_json::json;

use crate::axe;
use crate::caller::{ADMIN, Api, ended};
use crate::guest::{HOSTILE, link};
use crate::stage::Stage;

/// Agent script for the steps around the tasks: specification, plan, tasks, review.
const STEPS: &str = r#"@on-kind spec @say <document>
@on-kind spec @say # Due dates\n
@on-kind spec @say Items may have a due date. Those that are late are listed.
@on-kind spec @say </document>
@on-kind plan @say <document>1. Read the date: --due takes a day.\n2. List what is late, <b>sorted</b>.\n3. Say so in the manual, and run the tests in CI.</document>
@on-kind build @say <<GRAPH
<task-graph>
- key: parse
  title: Read the due date from the command line
  description: |
    @think The parser takes one flag after the other; a date is one more.
    @say I read the parser and its tests.
    @usage 18200 640 0.21
    @on-attempt 1 @run echo 'error: no such flag: --due' && false
    @on-attempt 1 @silent
    @if-prompt-has words for days : @say It takes words for days as well.
    @wait-for {gate}
    @say It is read now, with tests.
    @usage 9400 1310 0.17
    @write due.rs pub fn due(text: &str) -> Option<Day> { parse(text, "%Y-%m-%d") } // or tomorrow
    @done
- key: list
  title: List what is late
  after: [parse]
  description: |
    @usage 7100 420 0.09
    @if-prompt-has By day : @write list.txt by day
    @if-prompt-has By day : @done
- key: docs
  title: Say so in the manual
  max_retries: 0
  after: [parse]
  description: |
    @usage 5200 380 0.06
    @on-attempt 1 @fail In which tense?
    @write docs.txt text
    @done
- key: ci
  title: Run the tests in CI
  after: [parse]
  description: |
    @usage 3100 210 0.04
    @write .github/workflows/test.yml on: push
    @done
</task-graph>
GRAPH
@if-prompt-has Title: List what is late : @unless-prompt-has By day : @say <question choices="By day|By name">In which order?</question>
@on-kind review @say <review-pass/>
"#;

/// Folder for pictures, if `RALPH_PAGE_PICTURES` asks for them.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("RALPH_PAGE_PICTURES")
        .map(|_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/page"))
}

/// Checks the page's accessibility, and takes pictures for the documentation.
async fn inspect(browser: &Browser, name: &str) {
    axe::finds_nothing_serious(browser, name).await;
    let Some(dir) = pictures() else { return };
    for (ending, dark, width, height) in [
        ("light", false, 1280, 860),
        ("dark", true, 1280, 860),
        ("phone", false, 360, 780),
    ] {
        let path = dir.join(format!("{name}-{ending}.png"));
        browser.picture(&path, dark, width, height).await;
    }
}

/// A browser, agents that ask questions, and a gate that one agent waits for.
struct Walk {
    stage: Stage,
    browser: Browser,
    gate: PathBuf,
}

impl Walk {
    async fn begin() -> Self {
        let mut world = World::start().await.unwrap();
        let asks = PromptOptions {
            people: true,
            ..PromptOptions::default()
        };
        world.settings.question_wait = Duration::from_secs(600);
        world.settings.templates = Arc::new(Templates::load(None, asks).unwrap());
        let gate = world.gate("page");
        let steps = STEPS.replace("{gate}", &gate.display().to_string());
        let config = format!("[agent]\nenv = {{ RALPH_SCRIPT = {steps:?} }}\n");
        std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
        let repository = Repository::create(world.dir(), &[("README.md", "begin\n")]).unwrap();
        world.coordinator().await.unwrap();
        let api = Api::start(&world).await;
        let worker = world.worker(&WorkerOptions::named("w").slots(3)).unwrap();
        let stage = Stage {
            world,
            repository,
            api,
            worker,
        };
        Self {
            stage,
            browser: Browser::open().await,
            gate,
        }
    }

    async fn go(&self, path: &str) {
        self.browser.go(&format!("{}{path}", self.stage.api.url)).await;
    }

    async fn ends(&self, outcome: &str) {
        let over = ended(&self.stage.api, "due-dates").await;
        let tell = self.stage.world.tell().await;
        assert_eq!(over["feature"]["run"]["outcome"], outcome, "{tell}");
    }

    /// A sentence becomes a feature, and its plan waits for approval.
    async fn submits_a_sentence(&self) {
        let browser = &self.browser;
        self.go("/features").await;
        browser.shows("Or paste a token").await;
        browser.go(&link(&self.stage.api, ADMIN).await).await;
        browser.shows("Nothing waits for you").await;
        self.go("/features").await;
        browser.click("#new summary").await;
        let sentence = "Items may have a due date; list those that are late.";
        browser.write("#new textarea", sentence).await;
        browser.write("#new input[name=name]", "due-dates").await;
        let repository = self.stage.repository.path().display().to_string();
        browser.write("#new input[name=repo]", &repository).await;
        browser.click("#new form button").await;
        browser.shows("Submitted").await;
        // The open page shows new tasks.
        browser.shows("Write the plan").await;
        self.ends("blocked").await;
        self.go("/").await;
        browser.shows("1. Read the date: --due takes a day.").await;
        browser.shows("<b>sorted</b>").await;
        inspect(browser, "inbox").await;
        browser.click("form[action='/do/task/approve'] button").await;
        browser.shows("Approved; the run goes on").await;
    }

    /// A person watches a session and interrupts it with words for the next session.
    async fn watches_and_interrupts(&self) {
        let browser = &self.browser;
        browser.shows("Running now").await;
        browser.shows("Read the due date from the command line").await;
        browser.click("#running td.main a").await;
        browser.shows("I read the parser and its tests.").await;
        browser.shows("a date is one more").await;
        browser.shows("error: no such flag").await;
        browser.shows("1 error").await;
        inspect(browser, "task").await;
        browser.click("details[id^=act-interrupt] summary").await;
        browser
            .write(
                "details[id^=act-interrupt] textarea",
                "Take words for days as well, such as tomorrow",
            )
            .await;
        browser.click("details[id^=act-interrupt] form button").await;
        browser.shows("The session is interrupted").await;
        browser.shows("It takes words for days as well.").await;
        browser.shows("feedback: Take words for days").await;
        browser.write("#session input[type=search]", "parser").await;
        assert!(!browser.text().await.contains("It takes words for days as well."));
        // Typed text stays while the page changes.
        std::fs::write(&self.gate, "").unwrap();
        until("the end of the session", async || {
            let text = browser
                .run("return document.querySelector('#transcript').textContent")
                .await;
            let text = text.as_str().unwrap_or_default().to_owned();
            match text.contains("It is read now, with tests.") {
                true => Ok(()),
                false => Err(text),
            }
        })
        .await;
        let typed = browser.run("return document.querySelector('#session input[type=search]').value");
        assert_eq!(typed.await, "parser");
    }

    /// A question, a changed protected file and a failure appear in the inbox without a click or a reload.
    async fn decides_what_waits(&self) {
        let browser = &self.browser;
        self.go("/").await;
        browser.shows("In which order?").await;
        browser
            .shows("changes protected files: .github/workflows/test.yml")
            .await;
        browser.shows("In which tense?").await;
        inspect(browser, "question").await;
        self.go("/features/due-dates").await;
        browser.shows("waits for an answer: In which order?").await;
        inspect(browser, "feature").await;
        self.go("/").await;
        browser.click("article.k-question button[value='1']").await;
        browser.shows("Answered").await;
        browser
            .click("article.k-approval form[action='/do/task/approve'] button")
            .await;
        browser.shows("Approved").await;
        browser.click("article.k-review details.act summary").await;
        browser
            .write("article.k-review details.act[open] textarea", "In the present")
            .await;
        browser
            .click("article.k-review details.act[open] form button")
            .await;
        browser.shows("The task will be tried again").await;
        self.ends("complete").await;
        browser.shows("Nothing waits for you").await;
    }

    /// Keys lead to the feature, the log and the diff.
    async fn looks_around(&self) {
        let browser = &self.browser;
        browser.press("gf").await;
        browser.shows("New feature").await;
        browser.press("j\u{E007}").await;
        browser.shows("Graph").await;
        let done = "return document.querySelectorAll('.graph .n-done').length";
        assert_eq!(browser.run(done).await, 8);
        let width = "return Number(document.querySelector('.graph svg').getAttribute('width'))";
        let before = browser.run(width).await.as_f64().unwrap();
        browser.press("++").await;
        let after = browser.run(width).await.as_f64().unwrap();
        assert!((after / before - 1.25 * 1.25).abs() < 0.01, "{before} {after}");
        browser.press("0").await;
        assert_eq!(browser.run(width).await.as_f64(), Some(before));
        browser.click("nav.parts a[href$='/landed']").await;
        browser.click("li.landed details summary").await;
        browser.shows("Changes").await;
        for (key, words) in [
            ("w", "Slots"),
            ("m", "Landed with memory"),
            ("s", "effective settings"),
        ] {
            browser.press(&format!("g{key}")).await;
            browser.shows(words).await;
            axe::finds_nothing_serious(browser, words).await;
        }
        browser.press("gl").await;
        browser.shows("What happened").await;
        browser.shows("Landed").await;
        inspect(browser, "log").await;
        browser.press("?").await;
        browser.shows("to the next or the previous item").await;
        browser.press("\u{E00C}").await;
        self.go("/tasks/due-dates%2Fparse/diff").await;
        browser.shows("compared with").await;
        let words = "return [...document.querySelectorAll('.diff .plus .k')].map((word) => word.textContent).join(' ')";
        assert_eq!(browser.run(words).await, "pub fn");
        inspect(browser, "diff").await;
    }

    /// The feature merges into its base branch.
    async fn merges(&self) {
        let browser = &self.browser;
        self.go("/features/due-dates").await;
        browser.click("#act-merge summary").await;
        browser.click("#act-merge form button").await;
        browser.shows("The feature will be merged as soon as").await;
        until("the merge", async || {
            self.stage.repository.file("main", "list.txt")
        })
        .await;
        assert_eq!(
            self.stage.repository.file("main", "list.txt").unwrap(),
            "by day\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_goes_from_a_sentence_to_a_merged_branch_in_a_browser() {
    if !Browser::is_installed().await {
        return;
    }
    let walk = Walk::begin().await;
    walk.submits_a_sentence().await;
    walk.watches_and_interrupts().await;
    walk.decides_what_waits().await;
    walk.looks_around().await;
    walk.merges().await;
    let (browser, stage) = (&walk.browser, &walk.stage);
    checks_a_hostile_title(&stage.api, browser).await;
    let complaints = browser.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");

    // An expired session asks for a login and leads back.
    sqlx::query("update page_logins set expires_at = now()")
        .execute(&stage.world.db)
        .await
        .unwrap();
    let address = format!("{}/features/hostile", stage.api.url);
    browser.go(&address).await;
    browser.shows("Or paste a token").await;
    axe::finds_nothing_serious(browser, "login").await;
    browser.write("#token", ADMIN).await;
    browser.click("main form button").await;
    browser.shows("Graph").await;
    assert_eq!(browser.address().await, address);
    walk.browser.close().await;
}

/// A title with a script stays text, and an open page soon shows a change.
async fn checks_a_hostile_title(api: &Api, browser: &Browser) {
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
    // The stream is open once its first event has come.
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
        "the page must not reload"
    );
}

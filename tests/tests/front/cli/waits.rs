//! Commands that wait: what they tell where nothing runs, and what Ctrl+C offers while something does (SPEC 3.5, 3.6).

use std::path::Path;
use std::process::Command;

use ralph_tests::harness::{Terminal, binary, configure};
use serde_json::{Value, json};

use crate::caller::ADMIN;
use crate::stage::Stage;

fn command(stage: &Stage, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("PAGER")
        .env("HOME", folder)
        .env_remove("XDG_STATE_HOME")
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    command
}

/// Runs a command; gives its exit code and all that it said.
fn run(stage: &Stage, folder: &Path, line: &str) -> (Option<i32>, String) {
    let args = shell_words::split(line).unwrap();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = command(stage, folder, &args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_waited_for_where_nothing_runs() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, code: i32, words: &str| {
        let (found, said) = run(&stage, folder.path(), line);
        assert!(
            found == Some(code) && said.contains(words),
            "`{line}`: {found:?}: {said}"
        );
    };
    let tasks = "- {key: a, title: A, description: \"@write a.txt a\\n@done\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("complete").await;
    check("feature wait f", 0, "Complete");
    check(
        "submit task Later --feature f --description later --wait",
        4,
        "next: ralph feature run f\n",
    );
    // Its last run is complete, and the feature isn't any more.
    check("feature wait f", 4, "`f` is ready: needs a run");
    check("feature wait f --output json", 4, "\"needs_run\": true");
    let hint = "next: ralph feature run f\n";
    check("submit task Last --feature f", 0, hint);
    check("feature update f", 0, hint);
    // Since a person may hold that task back, it doesn't begin with the merge, and none is left for a later run.
    check("feature merge f --wait", 1, "`feature run f`");

    let drafts = "feature create d --no-repo --description \"An idea\"";
    check(drafts, 0, "d");
    check("feature wait d", 5, "has not run yet");
    // Nobody sits at a terminal who could be asked.
    check("feature cancel d", 2, "--yes");
    check("feature cancel d --yes", 0, "is cancelled");
    check("feature wait d", 130, "before it ran");
    check("feature create e --no-repo", 0, "e");
    check("feature run e --wait", 5, "can't run a feature that is draft");
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_can_start_is_told_to_those_who_wait() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    stage.api.submit("g", "- {key: a, title: A, pool: gpu}\n").await;
    let why = "1 task waits: no worker serves pool gpu";
    let wait = command(&stage, folder.path(), &["feature", "wait", "g"]);
    let mut terminal = Terminal::open(&wait);
    terminal.until(why);
    terminal.press("\u{3}");
    terminal.until("[c]ontinue waiting");
    terminal.press("\u{3}");
    terminal.until("the run goes on");
    assert_eq!(terminal.end().0.code(), Some(130));
    let (code, said) = run(&stage, folder.path(), "feature show g");
    assert!(code == Some(0) && said.contains(why), "{said}");
    let (_, said) = run(&stage, folder.path(), "status");
    assert!(
        said.contains("1 task has no worker") && !said.contains("nothing waits for you"),
        "{said}"
    );
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_resolved_last_is_no_longer_waited_for() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, code: i32, words: &str| {
        let (found, said) = run(&stage, folder.path(), line);
        assert!(
            found == Some(code) && said.contains(words),
            "`{line}`: {found:?}: {said}"
        );
    };
    let tasks = "- {key: a, title: A, max_retries: 0, description: \"@fail no\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("blocked").await;
    check("feature wait f", 4, "1 task waits for a person");
    let hint = "next: ralph feature run f\n";
    check("task cancel f/a --no-run", 0, hint);
    check("feature wait f", 4, hint);
    check("feature show f", 0, "ready: needs a run");
    check(
        "feature run f --wait",
        0,
        "0 of 1 task done, 1 cancelled, 0 iterations",
    );
    check("feature run f", 5, "`ralph task create TITLE --feature f`");
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_keeps_what_it_was_given_for_its_first_run() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tasks.yaml"),
        "- {key: a, title: A, description: \"@fail no\"}\n",
    )
    .unwrap();
    let check = |line: &str| {
        let (code, said) = run(&stage, folder.path(), line);
        assert_eq!(code, Some(0), "`{line}`: {said}");
    };
    check(
        "feature create d --no-repo --tasks tasks.yaml --max-cost 1 --limit 7 --gate \"make test\" --pool special",
    );
    check("feature run d --max-time 2h");
    let (_, feature) = stage.api.get("/features/d").await;
    let limits = &feature["run"]["limits"];
    assert_eq!(
        (&limits["cost_usd"], &limits["iterations"], &limits["time_ms"]),
        (&json!(1.0), &json!(7), &json!(7_200_000)),
        "{limits}"
    );
    let gate: Vec<String> = sqlx::query_scalar("select gate from runs")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    assert_eq!(gate, ["make test"]);

    // Its steps are made when it first runs, with what it was given as well.
    check("feature create e --no-repo --pool special --max-retries 7 --no-verify");
    std::fs::write(folder.path().join("spec.md"), "Do it.").unwrap();
    check("feature spec e --file spec.md");
    check("feature run e");
    let (_, page) = stage.api.get("/features/e/tasks").await;
    let tasks = page["items"].as_array().unwrap();
    assert!(!tasks.is_empty());
    for task in tasks {
        assert_eq!(
            (&task["pool"], &task["max_retries"], &task["verify"]),
            (&json!("special"), &json!(7), &json!(false)),
            "{task}"
        );
    }
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_review_is_off_a_run_ends_without_a_person() {
    let stage = Stage::set().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // The second task begins when the first is over.
    let tasks = "- {key: a, title: A, description: \"@fail no\"}\n- {key: b, title: B, priority: 1, description: \"@done\"}\n";
    file("tasks.yaml", tasks);
    let submit = |name: &str, more: &str| {
        format!(
            "submit feature {name} --no-repo --tasks tasks.yaml --max-parallel 1 --max-retries 1 --backoff 0 --wait {more}"
        )
    };
    let check = |line: &str, code: i32, words: &str| {
        let (found, said) = run(&stage, folder.path(), line);
        assert!(
            found == Some(code) && said.contains(words),
            "`{line}`: {found:?}: {said}"
        );
    };
    let states = async |feature: &str| {
        let (_, page) = stage.api.get(&format!("/features/{feature}/tasks")).await;
        let mut states: Vec<(String, String)> = Vec::new();
        for task in page["items"].as_array().unwrap() {
            let word = |field: &str| task[field].as_str().unwrap().to_owned();
            states.push((word("title"), word("status")));
        }
        states.sort();
        states.into_iter().map(|(_, state)| state).collect::<Vec<_>>()
    };
    check(&submit("asks", ""), 4, "for a person");
    assert_eq!(states("asks").await, ["needs_review", "done"]);
    check(&submit("goes-on", "--no-review"), 1, "failed for good");
    assert_eq!(states("goes-on").await, ["failed", "done"]);
    check(
        &submit("stops", "--no-review --on-failure stop"),
        1,
        "failed for good",
    );
    assert_eq!(states("stops").await, ["failed", "pending"]);
    // The file says it as well, and a flag wins over it.
    configure(folder.path(), "[execution]\nreview = false\n");
    check(&submit("by-file", ""), 1, "failed for good");
    check(&submit("by-flag", "--no-review=no"), 4, "for a person");
    // A further run is like the last one.
    std::fs::remove_file(folder.path().join(".ralph.toml")).unwrap();
    check("task retry by-file/a", 0, "`by-file` goes on (run-");
    check("task retry --all-of goes-on", 0, "`goes-on` goes on (run-");
    check("feature wait by-file", 1, "failed for good");
    check(
        "task retry by-file/a --no-run",
        0,
        "next: ralph feature run by-file\n",
    );
    check("feature run by-file --wait", 1, "failed for good");
    stage.strike().await;
}

const HELD: &str = "- key: a\n  title: Held\n  description: |\n    @effect begun\n    \
                    @unless-prompt-has use tabs : @silent\n    @write a.txt tabs\n    @done\n";

/// A feature whose task waits for feedback, once its session runs.
async fn held() -> (Stage, tempfile::TempDir) {
    let stage = Stage::set().await;
    stage
        .submit(json!({"tasks": {"source": "t", "text": HELD}}))
        .await;
    stage.world.effects_of("begun", 1).await.unwrap();
    (stage, tempfile::tempdir().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_the_run_and_another_goes_on() {
    let (stage, folder) = held().await;
    let wait = command(&stage, folder.path(), &["feature", "wait", "f"]);
    // Twice means to leave: the run goes on.
    let mut terminal = Terminal::open(&wait);
    terminal.until("1 running");
    terminal.press("\u{3}");
    terminal.until("[c]ontinue waiting");
    terminal.press("\u{3}");
    terminal.until("the run goes on");
    assert_eq!(terminal.end().0.code(), Some(130));

    let mut terminal = Terminal::open(&wait);
    terminal.until("1 running");
    terminal.press("\u{3}");
    terminal.until("[c]ontinue waiting");
    terminal.press("s\r");
    terminal.until("Interrupted");
    assert_eq!(terminal.end().0.code(), Some(130));
    let (_, feature) = stage.api.get("/features/f").await;
    assert_eq!(feature["status"], "ready", "{feature}");
    let (code, said) = run(&stage, folder.path(), "feature stop f");
    assert!(
        code == Some(1) && said.contains("can't stop a feature that is not running"),
        "{said}"
    );

    let told = json!({"reason": "use tabs"});
    let (status, answer) = stage.api.post("/tasks/f%2Fa/feedback", &told).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.runs_on().await;
    let over: Value = stage.ends("complete").await;
    assert_eq!(over["feature"]["tasks"]["done"], 1, "{over}");
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_feedback_stops_is_told_where_the_person_types() {
    let (stage, folder) = held().await;
    let wait = command(&stage, folder.path(), &["feature", "wait", "f"]);
    let mut terminal = Terminal::open(&wait);
    terminal.until("1 running");
    terminal.press("\u{3}");
    terminal.until("[c]ontinue waiting");
    terminal.press("f\r");
    terminal.until("What should the agents know?");
    terminal.press("use tabs\r");
    // The bar is out of the way while somebody types: what is said then is seen all the same.
    terminal.until("interrupted t-");
    terminal.until("Held");
    terminal.until("Complete");
    assert_eq!(terminal.end().0.code(), Some(0));
    assert_eq!(stage.file("a.txt"), "tabs");
    stage.strike().await;
}

//! Commands that wait: their message when nothing runs, and the choices of Ctrl+C while something runs (SPEC
//! 3.5, 3.6).

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

/// Runs a command; gives its exit code and all its output.
fn run(stage: &Stage, folder: &Path, line: &str) -> (Option<i32>, String) {
    let args = shell_words::split(line).unwrap();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = command(stage, folder, &args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn check(stage: &Stage, folder: &Path, line: &str, code: i32, words: &str) {
    let (found, text) = run(stage, folder, line);
    assert!(
        found == Some(code) && text.contains(words),
        "`{line}`: {found:?}: {text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_at_once_when_nothing_runs() {
    let stage = Stage::start().await;
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, code: i32, words: &str| check(&stage, folder.path(), line, code, words);
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
    // The last run is complete, but the feature has a new task.
    check("feature wait f", 4, "`f` is ready: needs a run");
    check("feature wait f --output json", 4, "\"needs_run\": true");
    let hint = "next: ralph feature run f\n";
    check("submit task Last --feature f", 0, hint);
    check("feature update f", 0, hint);
    // A person may hold the new task back, so the merge doesn't start that task, and no merge stays queued.
    check("feature merge f --wait", 1, "`feature run f`");

    let drafts = "feature create d --no-repo --description \"An idea\"";
    check(drafts, 0, "d");
    check("feature wait d", 5, "has not run yet");
    // Without a terminal, nobody can be asked.
    check("feature cancel d", 2, "--yes");
    check("feature cancel d --yes", 0, "is cancelled");
    check("feature wait d", 130, "before it ran");
    check("feature create e --no-repo", 0, "e");
    check("feature run e --wait", 5, "can't run a feature that is draft");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_command_reports_tasks_that_no_worker_can_start() {
    let stage = Stage::start().await;
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
    let (code, text) = run(&stage, folder.path(), "feature show g");
    assert!(code == Some(0) && text.contains(why), "{text}");
    let (_, text) = run(&stage, folder.path(), "status");
    assert!(
        text.contains("1 task has no worker") && !text.contains("nothing waits for you"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feature_waits_for_a_run_once_a_person_resolved_its_task() {
    let stage = Stage::start().await;
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, code: i32, words: &str| check(&stage, folder.path(), line, code, words);
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_keeps_its_options_for_the_first_run() {
    let stage = Stage::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tasks.yaml"),
        "- {key: a, title: A, description: \"@fail no\"}\n",
    )
    .unwrap();
    let check = |line: &str| {
        let (code, text) = run(&stage, folder.path(), line);
        assert_eq!(code, Some(0), "`{line}`: {text}");
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

    // Steps are created at the first run, with the draft's options too.
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_review_ends_without_a_person() {
    let stage = Stage::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // The second task begins when the first has ended.
    let tasks = "- {key: a, title: A, description: \"@fail no\"}\n- {key: b, title: B, priority: 1, description: \"@done\"}\n";
    file("tasks.yaml", tasks);
    let submit = |name: &str, more: &str| {
        format!(
            "submit feature {name} --no-repo --tasks tasks.yaml --max-parallel 1 --max-retries 1 --backoff 0 --wait {more}"
        )
    };
    let check = |line: &str, code: i32, words: &str| check(&stage, folder.path(), line, code, words);
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
    // The file can turn reviews off too, and a flag wins over the file.
    configure(folder.path(), "[execution]\nreview = false\n");
    check(&submit("by-file", ""), 1, "failed for good");
    check(&submit("by-flag", "--no-review=no"), 4, "for a person");
    // A new run keeps the setting of the last one.
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
}

const HELD: &str = "- key: a\n  title: Held\n  description: |\n    @effect begun\n    \
                    @unless-prompt-has use tabs : @silent\n    @write a.txt tabs\n    @done\n";

/// A feature with a running task that waits for feedback.
async fn held() -> (Stage, tempfile::TempDir) {
    let stage = Stage::start().await;
    stage
        .submit(json!({"tasks": {"source": "t", "text": HELD}}))
        .await;
    stage.world.effects_of("begun", 1).await.unwrap();
    (stage, tempfile::tempdir().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_leaves_or_stops_a_run_and_another_run_completes_it() {
    let (stage, folder) = held().await;
    let wait = command(&stage, folder.path(), &["feature", "wait", "f"]);
    // Ctrl+C twice leaves: the run goes on.
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
    let (code, text) = run(&stage, folder.path(), "feature stop f");
    assert!(
        code == Some(1) && text.contains("can't stop a feature that is not running"),
        "{text}"
    );

    let feedback = json!({"reason": "use tabs"});
    let (status, answer) = stage.api.post("/tasks/f%2Fa/feedback", &feedback).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.run_again().await;
    let over: Value = stage.ends("complete").await;
    assert_eq!(over["feature"]["tasks"]["done"], 1, "{over}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feedback_after_ctrl_c_shows_the_interrupted_session() {
    let (stage, folder) = held().await;
    let wait = command(&stage, folder.path(), &["feature", "wait", "f"]);
    let mut terminal = Terminal::open(&wait);
    terminal.until("1 running");
    terminal.press("\u{3}");
    terminal.until("[c]ontinue waiting");
    terminal.press("f\r");
    terminal.until("What should the agents know?");
    terminal.press("use tabs\r");
    // The bar is hidden while a person types; messages of that time still appear.
    terminal.until("interrupted t-");
    terminal.until("Held");
    terminal.until("Complete");
    assert_eq!(terminal.end().0.code(), Some(0));
    assert_eq!(stage.file("a.txt"), "tabs");
}

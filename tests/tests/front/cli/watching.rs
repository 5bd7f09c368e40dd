//! `status --watch` at a terminal, with its keys.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_tests::harness::{Terminal, binary};
use serde_json::json;

use crate::caller::ADMIN;
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_inspected_and_rejected_on_the_screen() {
    let stage = Stage::start().await;
    let tasks = "- {key: a, title: Lone, max_retries: 0, description: \"@say Searched.\\n@fail no\"}\n";
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    let over = stage.ends("blocked").await;
    let id = over["attention"][0]["id"].as_str().unwrap().to_owned();

    let program = binary("ralph-coordinator").display().to_string();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "stty rows 24 cols 120; exec \"$0\" status --watch",
            &program,
        ])
        .current_dir(stage.world.dir())
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    let mut terminal = Terminal::open(&command);
    // The terminal gets only changed cells, so wait for words in places where all of the text is new.
    terminal.until("Lone");
    terminal.until("Searched.");
    terminal.press("l");
    terminal.until("PgDn");
    terminal.press("q");
    terminal.until("Tab");
    terminal.press("x");
    terminal.until("reject:");
    // An empty reason is not sent.
    terminal.press("\r");
    terminal.press("elsewhere\r");
    let task: uuid::Uuid = sqlx::query_scalar("select id from tasks")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let rejected = "select exists (select 1 from task_logs where task_id = $1 and what = 'reject')";
    stage.world.until(rejected, task).await.unwrap();
    terminal.press("q");
    let (status, shown) = tokio::task::spawn_blocking(|| terminal.end()).await.unwrap();
    assert_eq!(status.code(), Some(0), "{shown}");

    let (_, log) = stage.api.get(&format!("/tasks/{id}/log")).await;
    let entries = log["items"].as_array().unwrap();
    let rejected: Vec<_> = entries.iter().filter(|entry| entry["what"] == "reject").collect();
    assert_eq!(rejected.len(), 1, "{log}");
    assert_eq!(rejected[0]["why"], "elsewhere", "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_that_ends_the_screen_restores_the_terminal() {
    let stage = Stage::start().await;
    let shell = "stty rows 24 cols 120
        before=$(stty -g)
        sh -c 'echo $$ > pid; exec \"$PROGRAM\" status --watch'
        echo \"left with $?\"
        test \"$(stty -g)\" = \"$before\" && echo 'as before'
        true";
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut command = Command::new("sh");
        command
            .args(["-c", shell])
            .current_dir(stage.world.dir())
            .env("PROGRAM", binary("ralph-coordinator"))
            .env("RALPH_URL", &stage.api.url)
            .env("RALPH_TOKEN", ADMIN);
        let mut terminal = Terminal::open(&command);
        // Blanks are not drawn, so wait for a single word.
        terminal.until("ready");
        let pid = std::fs::read_to_string(stage.world.dir().join("pid")).unwrap();
        kill(Pid::from_raw(pid.trim().parse().unwrap()), signal).unwrap();
        // The command leaves the alternate screen.
        terminal.until("\u{1b}[?1049l");
        terminal.until(&format!("left with {code}"));
        terminal.until("as before");
        tokio::task::spawn_blocking(|| terminal.end()).await.unwrap();
    }
}

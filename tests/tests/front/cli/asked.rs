//! Creation of a task through questions at the terminal.

use std::process::Command;

use ralph_tests::harness::{Terminal, World, binary};
use serde_json::json;

use crate::caller::{ADMIN, Api};

fn command(world: &World, api: &Api) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(["task", "create"])
        .current_dir(world.dir())
        .env("HOME", world.dir())
        .env("GIT_CEILING_DIRECTORIES", world.dir())
        .env("EDITOR", "printf 'More\\nof it\\n' >")
        .env("RALPH_URL", &api.url)
        .env("RALPH_TOKEN", ADMIN);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_create_a_task_once_the_person_confirms() {
    let world = World::calm().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A, pool: nobody}").await;
    let conversation = |last: &str| {
        let mut terminal = Terminal::open(&command(&world, &api));
        for (question, answer) in [
            ("What is to be done", ""),
            ("What is to be done", "Fix the login"),
            ("needs to know", "e"),
            ("Feature that it belongs to", "f"),
            ("must be done before", "f/a"),
            ("Submit it?", last),
        ] {
            terminal.until(question);
            terminal.press(&format!("{answer}\n"));
        }
        terminal.end()
    };
    let (status, shown) = conversation("n");
    assert!(
        !status.success() && shown.contains("nothing was submitted"),
        "{shown}"
    );
    let (status, shown) = conversation("");
    assert!(status.success() && shown.contains("(fix-the-login)"), "{shown}");
    let (_, task) = api.get("/tasks/f%2Ffix-the-login").await;
    assert_eq!(
        (&task["description"], &task["blockers"][0]["title"]),
        (&json!("More\nof it\n"), &json!("A")),
        "{task}"
    );
    let refused = command(&world, &api).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the title is missing: give TITLE"), "{stderr}");
}

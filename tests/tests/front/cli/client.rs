//! `ralph`, the client: the commands of `ralph-coordinator` that call a coordinator, without those that run
//! one.

use std::process::Output;

use ralph_tests::harness::binary;
use serde_json::Value;
use tokio::process::Command;

use crate::caller::{ADMIN, ended};
use crate::stage::Stage;

async fn ralph(stage: &Stage, args: &[&str]) -> Output {
    let mut command = Command::new(binary("ralph"));
    command
        .args(args)
        .current_dir(stage.world.dir())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", stage.world.dir())
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    command.output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_submits_shows_status_and_completes_names() {
    let stage = Stage::start().await;
    let tasks = stage.world.dir().join("tasks.yaml");
    std::fs::write(&tasks, "- {key: a, title: A, description: \"@done\"}\n").unwrap();
    let repo = stage.repository.path().display().to_string();
    let submit = [
        "submit",
        "feature",
        "f",
        "--tasks",
        "tasks.yaml",
        "--repo",
        &repo,
        "--no-verify",
    ];
    let submitted = ralph(&stage, &submit).await;
    let stderr = String::from_utf8_lossy(&submitted.stderr);
    assert!(submitted.status.success(), "{stderr}");
    assert_eq!(
        ended(&stage.api, "f").await["feature"]["run"]["outcome"],
        "complete"
    );

    let status = ralph(&stage, &["status", "--output", "json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["features"][0]["name"], "f");
    assert_eq!(status["workers"][0]["name"], "w");

    let mut asked = Command::new(binary("ralph"));
    asked
        .args(["--", "ralph", "feature", "show", ""])
        .env("COMPLETE", "fish")
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    let offered = String::from_utf8(asked.output().await.unwrap().stdout).unwrap();
    assert!(offered.lines().any(|line| line.starts_with("f\t")), "{offered}");
}

#[test]
fn the_client_has_its_own_manual_and_no_server_commands() {
    let root = tempfile::tempdir().unwrap();
    let ralph = |args: &[&str]| {
        let mut command = std::process::Command::new(binary("ralph"));
        command.args(args).current_dir(root.path()).output().unwrap()
    };
    assert!(ralph(&["man", "pages"]).status.success());
    let page = |name: &str| std::fs::read_to_string(root.path().join("pages").join(name));
    assert!(page("ralph.1").unwrap().contains("Exit codes"));
    assert!(page("ralph-submit-feature.1").unwrap().contains("max"));
    assert!(page("ralph-serve.1").is_err());
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(ralph(&["completions", shell]).stdout).unwrap();
        assert!(
            !script.contains("ralph-coordinator") && script.contains("ralph"),
            "{shell}: {script}"
        );
    }
    for command in ["serve", "up", "migrate", "doctor"] {
        assert_eq!(ralph(&[command]).status.code(), Some(2), "{command}");
    }
}

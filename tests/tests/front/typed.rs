//! Commands as people type them, against a stage.

use std::process::Output;
use std::time::Duration;

use ralph_tests::harness::{Spawned, binary};
use tokio::process::Command;

use crate::caller::ADMIN;
use crate::stage::Stage;

/// Longest wait for words.
const BOUND: Duration = Duration::from_secs(90);

fn command(stage: &Stage, line: &str) -> std::process::Command {
    let mut command = std::process::Command::new(binary("ralph-coordinator"));
    command
        .args(shell_words::split(line).unwrap())
        .current_dir(stage.world.dir())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", stage.world.dir())
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    command
}

/// What a command comes to.
pub async fn output(stage: &Stage, line: &str) -> Output {
    Command::from(command(stage, line)).output().await.unwrap()
}

/// What a command that succeeds prints.
pub async fn said(stage: &Stage, line: &str) -> String {
    let output = output(stage, line).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}`: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// Types a command until it prints these words.
pub async fn until_said(stage: &Stage, line: &str, words: &str) -> String {
    let looking = async {
        loop {
            let text = said(stage, line).await;
            if text.contains(words) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(BOUND, looking).await {
        Ok(text) => text,
        Err(_) => panic!("`{line}` never said `{words}`:\n{}", said(stage, line).await),
    }
}

/// A command that goes on.
pub fn started(stage: &Stage, name: &str, line: &str) -> Spawned {
    let log = stage.world.dir().join(format!("{name}.log"));
    Spawned::start(&mut command(stage, line), &log).unwrap()
}

/// Waits until a command that goes on has printed these words.
pub async fn until_told(command: &Spawned, words: &str) {
    let looking = async {
        while !command.output().contains(words) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = tokio::time::timeout(BOUND, looking).await;
    assert!(told.is_ok(), "it never said `{words}`:\n{}", command.output());
}

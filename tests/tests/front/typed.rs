//! Commands as people type them, run against a stage.

use std::process::Output;

use ralph_tests::harness::{Spawned, binary, until};
use tokio::process::Command;

use crate::caller::ADMIN;
use crate::stage::Stage;

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

pub async fn output(stage: &Stage, line: &str) -> Output {
    Command::from(command(stage, line)).output().await.unwrap()
}

/// Exit code and all output of a command.
pub async fn code_and_output(stage: &Stage, line: &str) -> (Option<i32>, String) {
    let output = output(stage, line).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// Standard output of a command that must succeed.
pub async fn stdout_of(stage: &Stage, line: &str) -> String {
    let output = output(stage, line).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}`: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard output of a command in this time zone.
pub async fn stdout_in_zone(zone: &str, stage: &Stage, line: &str) -> String {
    let mut command = command(stage, line);
    command.env("TZ", zone);
    let output = Command::from(command).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Repeats a command until it prints these words.
pub async fn wait_for_output(stage: &Stage, line: &str, words: &str) -> String {
    until(&format!("`{line}` to print `{words}`"), async || {
        let output = output(stage, line).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() && text.contains(words) {
            true => Ok(text),
            false => Err(text + &String::from_utf8_lossy(&output.stderr)),
        }
    })
    .await
}

/// Starts a command without waiting for its end.
pub fn started(stage: &Stage, name: &str, line: &str) -> Spawned {
    let log = stage.world.dir().join(format!("{name}.log"));
    Spawned::start(&mut command(stage, line), &log).unwrap()
}

/// Waits until a started command has printed these words.
pub async fn wait_for_words(command: &Spawned, words: &str) {
    until(&format!("a command to print `{words}`"), async || {
        let output = command.output();
        match output.contains(words) {
            true => Ok(()),
            false => Err(output),
        }
    })
    .await;
}

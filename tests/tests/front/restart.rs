//! The coordinator restarts while clients watch: they continue, miss nothing, and see nothing twice.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use ralph_coordinator::api;
use ralph_coordinator::store::access::Role;
use ralph_tests::harness::{Spawned, WorkerOptions, World, binary, until};
use serde_json::{Value, json};

use crate::caller::ADMIN;
use crate::typed::wait_for_words;

pub fn client() -> reqwest::Client {
    ralph_shared::tls::install();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Waits until a coordinator listens; gives its address.
pub async fn address(coordinator: &Spawned) -> String {
    let port = until("a coordinator that listens", async || {
        let output = coordinator.output();
        let line = output.lines().rfind(|line| line.contains("serving"));
        let at = line.and_then(|line| line.rsplit_once("127.0.0.1:"));
        let port = at.map(|(_, port)| port.chars().take_while(char::is_ascii_digit).collect::<String>());
        port.ok_or(output)
    })
    .await;
    format!("127.0.0.1:{port}")
}

/// Starts a command with its output in a file.
fn command(world: &World, url: &str, name: &str, args: &[&str]) -> Spawned {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(world.dir())
        .env("RALPH_URL", url)
        .env("RALPH_TOKEN", ADMIN);
    Spawned::start(&mut command, &world.dir().join(format!("{name}.out"))).unwrap()
}

/// Reads a task's transcript entries (id, data) from its event stream, until it ends or `most` have come.
async fn entries(url: &str, task: &str, last: Option<&str>, most: usize) -> Vec<(String, Value)> {
    use futures::StreamExt as _;
    let path = format!("{url}/api/v1/tasks/{task}/transcript/events");
    let mut request = client().get(path).bearer_auth(ADMIN);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let mut bytes = request.send().await.unwrap().bytes_stream();
    let mut text = String::new();
    let mut found = Vec::new();
    while found.len() < most {
        let Some(Ok(more)) = bytes.next().await else {
            break;
        };
        text.push_str(std::str::from_utf8(&more).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(id), Some(data)) = (field("id: "), field("data: "))
                && found.len() < most
            {
                found.push((id.to_owned(), serde_json::from_str(data).unwrap()));
            }
            text = rest.to_owned();
        }
    }
    found
}

fn open(gate: &Path) {
    std::fs::write(gate, "").unwrap();
}

#[tokio::test]
async fn watchers_continue_after_a_coordinator_restart() {
    let world = World::calm().await.unwrap();
    api::register_token(&world.db, "admin", ADMIN, Role::Admin)
        .await
        .unwrap();
    let mut first = world.coordinator_process("first", None).unwrap();
    let at = address(&first).await;
    let url = format!("http://{at}");
    let worker = world.worker(&WorkerOptions::named("w")).unwrap();
    let gates = [world.gate("one"), world.gate("two")];
    let description = format!(
        "@say first words\n@wait-for {}\n@say second words\n@wait-for {}\n@say third words\n@done",
        gates[0].display(),
        gates[1].display()
    );
    let tasks = json!([{"key": "a", "title": "A", "description": description}]).to_string();
    let body = json!({"name": "f", "verify": false, "tasks": {"source": "t", "text": tasks}});
    let post = client().post(format!("{url}/api/v1/features")).bearer_auth(ADMIN);
    let answer = post.body(body.to_string()).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 201, "{}", answer.text().await.unwrap());

    // `--follow` sees a session from its start only after it has begun.
    until("a session", async || {
        let shown = client()
            .get(format!("{url}/api/v1/tasks/f%2Fa/transcript"))
            .bearer_auth(ADMIN);
        let shown = shown.send().await.unwrap().text().await.unwrap();
        match shown.contains("first words") {
            true => Ok(()),
            false => Err(worker.output()),
        }
    })
    .await;
    let mut logs = command(&world, &url, "logs", &["logs", "f/a", "--follow"]);
    let mut status = command(&world, &url, "status", &["status", "--watch", "--output", "json"]);
    let mut waits = command(&world, &url, "waits", &["feature", "wait", "f"]);
    wait_for_words(&logs, "first words").await;
    until("a status before", async || !status.output().is_empty()).await;
    let before = entries(&url, "f%2Fa", None, 1).await;
    assert_eq!(before.len(), 1);

    // The agent continues while no coordinator runs.
    first.kill();
    open(&gates[0]);
    let seen = status
        .output()
        .lines()
        .filter(|line| line.starts_with('{'))
        .count();
    wait_for_words(&status, "waiting for it").await;
    let second = world.coordinator_at(&at, "second", None).unwrap();
    assert_eq!(address(&second).await, at);
    wait_for_words(&logs, "second words").await;
    until("a status after", async || {
        let output = status.output();
        match output.lines().filter(|line| line.starts_with('{')).count() > seen {
            true => Ok(()),
            false => Err(output),
        }
    })
    .await;
    let rest = tokio::spawn({
        let (url, last) = (url.clone(), before[0].0.clone());
        async move { entries(&url, "f%2Fa", Some(&last), usize::MAX).await }
    });
    open(&gates[1]);

    assert_eq!(
        waits.wait().await.code(),
        Some(0),
        "{}\n{}",
        waits.output(),
        second.output()
    );
    assert!(waits.output().contains("f: Complete"), "{}", waits.output());
    assert_eq!(logs.wait().await.code(), Some(0), "{}", logs.output());
    for words in ["first words", "second words", "third words"] {
        let count = logs.output().lines().filter(|line| line.trim() == words).count();
        assert_eq!(count, 1, "{words}:\n{}", logs.output());
    }
    status.signal(Signal::SIGINT);
    assert_eq!(status.wait().await.code(), Some(0), "{}", status.output());

    // Both streams together give the transcript: each entry once.
    let streamed: Vec<String> = before
        .into_iter()
        .chain(rest.await.unwrap())
        .map(|(id, _)| id)
        .collect();
    let shown = client()
        .get(format!("{url}/api/v1/tasks/f%2Fa/transcript"))
        .bearer_auth(ADMIN);
    let shown: Value = shown.send().await.unwrap().json().await.unwrap();
    let numbers: Vec<u64> = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["seq"].as_u64().unwrap())
        .collect();
    let streamed: Vec<u64> = streamed
        .iter()
        .map(|id| id.rsplit_once(':').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(streamed, numbers);
    drop((worker, second));
}

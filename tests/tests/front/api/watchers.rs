//! Many watchers of one feature cost the coordinator little memory.

use futures::future::try_join_all;
use ralph_coordinator::api;
use ralph_coordinator::store::access::Role;
use ralph_tests::harness::World;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::caller::ADMIN;
use crate::restart::{address, client};

const WATCHERS: usize = 500;
/// One token may have three quarters of three quarters of 800 streams.
const TOKENS: [&str; 2] = [ADMIN, "watchers-token-of-32-characters-x"];
/// Most that all of them together may cost. Bytes.
const MOST_BYTES: u64 = 100_000_000;

/// Resident memory of a process. Bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Opens an event stream and reads its first event.
async fn watch(at: &str, token: &str) -> std::io::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(at).await?;
    let head = format!(
        "GET /api/v1/features/f/events HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("data:") {
        line.clear();
        if reader.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(reader)
}

#[tokio::test]
async fn five_hundred_watchers_cost_less_than_a_hundred_megabytes() {
    let world = World::calm().await.unwrap();
    for token in TOKENS {
        api::register_token(&world.db, token, token, Role::Admin)
            .await
            .unwrap();
    }
    let coordinator = world.coordinator_process("watched", None).unwrap();
    let at = address(&coordinator).await;
    let body = json!({"name": "f", "tasks": {"source": "t", "text": "- {key: a, title: A}"}});
    let post = client()
        .post(format!("http://{at}/api/v1/features"))
        .bearer_auth(ADMIN);
    let answer = post.body(body.to_string()).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 201);

    // The first watcher allocates what all share.
    let first = watch(&at, ADMIN).await.unwrap();
    let before = resident(coordinator.pid());
    let watchers = try_join_all((0..WATCHERS).map(|n| watch(&at, TOKENS[n % TOKENS.len()])))
        .await
        .unwrap();
    let more = resident(coordinator.pid()).saturating_sub(before);
    assert!(more < MOST_BYTES, "{WATCHERS} watchers cost {more} bytes");
    drop((first, watchers, coordinator));
}

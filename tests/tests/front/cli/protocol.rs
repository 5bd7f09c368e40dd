//! Protocol lines, recorded on a worker whose configuration asks for them.

use std::os::unix::fs::PermissionsExt as _;

use ralph_tests::harness::WorkerOptions;
use serde_json::json;

use crate::stage::Stage;
use crate::typed::stdout_of;

#[tokio::test(flavor = "multi_thread")]
async fn protocol_lines_are_stored_for_the_workers_user_only() {
    let config = "[agent]\nprotocol_log = true\n";
    let stage = Stage::with(&WorkerOptions::named("w"), &[("README.md", "begin\n")], config).await;
    // A key in a well-known format.
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let tasks = format!("- {{key: a, title: A, description: \"@say the key is {key}\\n@done\"}}\n");
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("complete").await;
    let log = stdout_of(&stage, "logs f/a").await;
    let path = log
        .split_once("the protocol's lines are on this worker, in ")
        .and_then(|(_, rest)| rest.lines().next())
        .unwrap_or_else(|| panic!("no place in {log}"));
    let lines = std::fs::read_to_string(path).unwrap();
    for words in [
        " > {\"",
        "\"method\":\"initialize\"",
        " < {\"",
        "session/update",
        "the key is [redacted]",
    ] {
        assert!(lines.contains(words), "no {words} in {lines}");
    }
    assert!(!lines.contains(&key), "{lines}");
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

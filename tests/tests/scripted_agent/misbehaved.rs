use std::os::unix::process::ExitStatusExt as _;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};
use serde_json::json;

use super::lives;
use super::wire::{PROMPT, Wire};

#[tokio::test]
async fn the_agent_dies_as_scripted_after_its_text() {
    for (directive, code, signal) in [
        ("@crash", Some(101), None),
        ("@exit 7", Some(7), None),
        ("@kill", None, Some(9)),
    ] {
        let mut wire = Wire::prompt(&[], &format!("@say last words\n{directive}\n@say never")).await;
        assert_eq!(wire.text().await, "last words\n", "{directive}");
        assert_eq!(wire.line().await, None, "{directive}");
        let status = wire.exit().await;
        assert_eq!((status.code(), status.signal()), (code, signal), "{directive}");
    }
}

#[tokio::test]
async fn bad_lines_keep_their_order_among_good_ones() {
    let mut wire = Wire::prompt(
        &[],
        "@say 1\n@junk Loading model...\n@say 2\n@bad-json\n@bad-utf8\n@unknown-update\n@stray-response\n@say 3",
    )
    .await;
    assert_eq!(wire.text().await, "1\n");
    assert_eq!(wire.line().await.unwrap(), b"Loading model...");
    assert_eq!(wire.text().await, "2\n");
    let half = wire.line().await.unwrap();
    assert!(half.starts_with(b"{") && serde_json::from_slice::<serde_json::Value>(&half).is_err());
    let bad = wire.line().await.unwrap();
    assert!(std::str::from_utf8(&bad).is_err());
    let replaced: serde_json::Value = serde_json::from_str(&String::from_utf8_lossy(&bad)).unwrap();
    assert!(
        replaced["params"]["update"]["content"]["text"]
            .as_str()
            .unwrap()
            .starts_with("before \u{fffd}")
    );
    assert_eq!(
        wire.message().await["params"]["update"]["sessionUpdate"],
        "weather_forecast"
    );
    assert_eq!(wire.message().await["id"], 987_654_321);
    assert_eq!(wire.text().await, "3\n");
    assert_eq!(wire.message().await["result"]["stopReason"], "end_turn");
    assert!(wire.close().await.success());
}

#[tokio::test]
async fn long_lines_and_floods_have_the_scripted_size() {
    let mut wire = Wire::prompt(&[], "@long-line 5M\n@flood 3M\n@stop tired").await;
    assert_eq!(wire.text().await.len(), 5 << 20);
    let mut flooded = 0;
    while flooded < 3 << 20 {
        flooded += wire.text().await.len();
    }
    assert_eq!(flooded, 3 << 20);
    assert_eq!(
        wire.message().await,
        json!({ "jsonrpc": "2.0", "id": PROMPT, "result": { "stopReason": "tired" } })
    );
}

#[tokio::test]
async fn a_hanging_agent_ignores_cancel_and_ends_with_its_input() {
    let mut wire = Wire::prompt(&[], "@say hanging\n@hang").await;
    assert_eq!(wire.text().await, "hanging\n");
    wire.cancel().await;
    // The answer to a later request shows that the agent read the cancel, and did not answer the prompt.
    wire.request(4, "session/new", json!({ "cwd": "/", "mcpServers": [] }))
        .await;
    assert_eq!(wire.message().await["id"], 4);
    assert!(wire.close().await.success());
}

#[tokio::test]
async fn a_turn_can_ignore_a_cancel_and_continue() {
    let mut wire = Wire::prompt(&[], "@ignore-cancel\n@ask leave\n@say still here").await;
    let ask = wire.message().await;
    wire.cancel().await;
    let answer = json!({ "outcome": { "outcome": "cancelled" } });
    wire.send(&json!({ "jsonrpc": "2.0", "id": ask["id"], "result": answer }))
        .await
        .unwrap();
    assert_eq!(wire.text().await, "permission leave: cancelled\n");
    assert_eq!(wire.text().await, "still here\n");
    assert_eq!(wire.message().await["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn sigterm_ends_the_agent_unless_ignored() {
    let mut wire = Wire::prompt(&[], "@say here\n@hang").await;
    wire.text().await;
    wire.signal(Signal::SIGTERM);
    assert_eq!(wire.exit().await.signal(), Some(15));

    let mut wire = Wire::prompt(&[], "@ignore-term\n@say here\n@hang").await;
    wire.text().await;
    wire.signal(Signal::SIGTERM);
    wire.request(4, "session/new", json!({ "cwd": "/", "mcpServers": [] }))
        .await;
    assert_eq!(wire.message().await["id"], 4);
    wire.signal(Signal::SIGKILL);
    assert_eq!(wire.exit().await.signal(), Some(9));
}

#[tokio::test]
async fn the_end_of_the_input_can_be_ignored() {
    for (arguments, directive) in [(&[][..], "@ignore-eof\n"), (&["--ignore-eof"], "")] {
        // The wait is longer than an agent takes to exit that minds the end.
        let mut wire = Wire::prompt(
            arguments,
            &format!("{directive}@say here\n@wait 1200\n@say there\n@exit 3"),
        )
        .await;
        assert_eq!(wire.text().await, "here\n");
        drop(wire.input.take());
        assert_eq!(wire.text().await, "there\n");
        assert_eq!(wire.exit().await.code(), Some(3));
    }
}

#[tokio::test]
async fn the_output_can_be_closed_while_the_agent_lives() {
    let mut wire = Wire::prompt(&[], "@say bye\n@close-stdout\n@say unheard\n@hang").await;
    assert_eq!(wire.text().await, "bye\n");
    assert_eq!(wire.line().await, None);
    assert!(wire.child.try_wait().unwrap().is_none());
    assert!(wire.close().await.success());
}

#[tokio::test]
async fn a_closed_input_breaks_the_writers_pipe() {
    let mut wire = Wire::prompt(&[], "@close-stdin\n@say closed\n@hang").await;
    assert_eq!(wire.text().await, "closed\n");
    let error = wire.send(&json!({})).await.expect_err("nobody reads");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    wire.signal(Signal::SIGKILL);
    wire.exit().await;
}

#[tokio::test]
async fn the_agent_ends_cleanly_when_its_reader_is_gone() {
    let mut wire = Wire::prompt(&[], "@say first\n@flood 200M").await;
    assert_eq!(wire.text().await, "first\n");
    drop(wire.output.take());
    let status = wire.exit().await;
    assert_eq!((status.code(), status.signal()), (Some(0), None));
}

#[tokio::test]
async fn an_orphan_outlives_the_agent_in_its_own_session() {
    let mut wire = Wire::prompt(&[], "@orphan 60\n@kill").await;
    let text = wire.text().await;
    let pid: i32 = text.trim().strip_prefix("orphan ").unwrap().parse().unwrap();
    assert_eq!(wire.exit().await.signal(), Some(9));
    assert!(lives(pid));
    assert_ne!(getsid(Some(Pid::from_raw(pid))).unwrap(), getsid(None).unwrap());
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    // The orphan held the agent's output, which therefore ends only now.
    assert_eq!(wire.line().await, None);
}

#[tokio::test]
async fn handshakes_fail_as_configured() {
    let mut wire = Wire::start(&["--handshake", "wrong-version"]);
    assert_eq!(wire.initialize().await["result"]["protocolVersion"], 999);

    let mut wire = Wire::start(&["--handshake", "auth-required"]);
    assert_eq!(wire.initialize().await["result"]["authMethods"][0]["id"], "login");
    wire.request(2, "session/new", json!({ "cwd": "/", "mcpServers": [] }))
        .await;
    assert_eq!(wire.message().await["error"]["code"], -32000);

    let mut wire = Wire::start(&["--handshake", "slow:5"]);
    assert_eq!(wire.initialize().await["result"]["protocolVersion"], 1);

    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let mut wire = Wire::start(&["--handshake", "crash"]);
    wire.request(1, "initialize", initialize.clone()).await;
    assert_eq!((wire.line().await, wire.exit().await.code()), (None, Some(101)));

    let mut wire = Wire::start(&["--handshake", "exit"]);
    assert_eq!((wire.line().await, wire.exit().await.code()), (None, Some(1)));

    let mut wire = Wire::start(&["--handshake", "hang"]);
    wire.request(1, "initialize", initialize).await;
    wire.request(2, "session/new", json!({ "cwd": "/", "mcpServers": [] }))
        .await;
    assert_eq!(wire.message().await["id"], 2, "the first request has no answer");
    assert!(wire.close().await.success());
}

#[tokio::test]
async fn the_old_method_to_choose_a_model_works_if_configured() {
    for (arguments, expected) in [
        (&["--set-model", "--no-model-option"][..], None),
        (&[], Some(-32601)),
    ] {
        let mut wire = Wire::prompt(arguments, "@silent").await;
        wire.request(
            4,
            "session/set_model",
            json!({ "sessionId": wire.session, "modelId": "opus" }),
        )
        .await;
        assert_eq!(wire.message().await["error"]["code"].as_i64(), expected);
    }
}

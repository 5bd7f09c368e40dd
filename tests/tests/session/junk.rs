//! Agents that speak badly: the session goes on.

use ralph_shared::wire::{Ended, SessionLimit, TranscriptUpdate};

use super::scene::{scene, shell, turn};

#[tokio::test]
async fn bad_lines_cost_nothing_but_themselves() {
    let played = scene(
        "@say 1\n@junk Loading model...\n@bad-json\n@unknown-update\n@stray-response\n@tool-update-only\n@say 2\n@done",
    )
    .play()
    .await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!(
        played.end.text,
        "1\n\n2\n<task-done>t-0123456789ab</task-done>\n".replace("\n\n", "\n")
    );
    assert_eq!(played.end.tool_calls, 1);
    assert!(played.transcript().contains("Loading model..."));
}

#[tokio::test]
async fn invalid_utf8_is_replaced() {
    let played = scene("@bad-utf8\n@say over").play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert!(played.end.text.contains('\u{fffd}') && played.end.text.ends_with("over\n"));
}

#[tokio::test]
async fn long_lines_and_floods_are_read_whole() {
    let played = scene("@long-line 5M\n@flood 10M\n@done").play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    let done = "<task-done>t-0123456789ab</task-done>\n";
    assert_eq!(played.end.text.trim_end().len(), (15 << 20) + done.len() - 1);
    assert!(played.end.text.ends_with(done));
}

#[tokio::test]
async fn a_line_beyond_all_bounds_is_skipped() {
    let played = scene("@say 1\n@long-line 17M\n@say 2").play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!(played.end.text, "1\n2\n");
    assert!(played.transcript().contains("too long to be read"));
}

/// Read as a tree it would take hundreds of megabytes.
#[tokio::test]
async fn a_message_of_too_many_values_is_skipped() {
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let update =
        |update: &str| format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}"#);
    let call = update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"x","rawInput":[0"#);
    let said = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"on"}}"#;
    let script = [
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
        "read -r l".to_owned(),
        format!("printf '{call}'; yes ,0 | head -n 3000000 | tr -d '\\n'; printf ']}}}}}}\\n'"),
        format!("printf '{}}}}}\\n'", update(said)),
        r#"printf '{"id":2,"result":{"stopReason":"end_turn"}}\n'"#.to_owned(),
        "exec cat >/dev/null".to_owned(),
    ]
    .join("; ");
    let played = shell(&script).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!((played.end.text.as_str(), played.end.tool_calls), ("on", 0));
    let transcript = played.transcript();
    assert!(transcript.contains("more values than are read"), "{transcript}");
}

#[tokio::test]
async fn an_answer_without_sense_is_a_protocol_error() {
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let start = [
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
    ]
    .join("; ");
    for answer in ["null", "[]", r#"{"stopReason":5}"#] {
        let played = shell(&format!("{start}; {}; cat >/dev/null", reply(2, answer)))
            .play()
            .await;
        assert!(
            matches!(played.end.ended, Ended::Protocol { .. }),
            "{answer} {:?}",
            played.end.ended
        );
    }
    let played = shell(&format!(
        "{}; {}; cat >/dev/null",
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, "{}")
    ))
    .play()
    .await;
    assert!(
        matches!(played.end.ended, Ended::Protocol { .. }),
        "{:?}",
        played.end.ended
    );
}

#[tokio::test]
async fn a_flood_of_requests_by_one_who_reads_no_answer_is_survived() {
    let request =
        r#"{"jsonrpc":"2.0","id":$i,"method":"fs/read_text_file","params":{"sessionId":"s","path":"big"}}"#;
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let script = [
        "head -c 4000000 /dev/zero | tr '\\0' x > big".to_owned(),
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
        "read -r l".to_owned(),
        format!(
            "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo \"{}\"; done",
            request.replace('"', "\\\"")
        ),
        r#"printf '{"id":2,"result":{"stopReason":"end_turn"}}\n'"#.to_owned(),
        "exec cat >/dev/null".to_owned(),
    ]
    .join("; ");
    let played = shell(&script).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
}

#[tokio::test]
async fn small_requests_wait_for_an_agent_that_reads_no_answer() {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#;
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let script = [
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
        "read -r l".to_owned(),
        format!("exec yes '{request}'"),
    ]
    .join("; ");
    let played = shell(&script)
        .limits(|limits| {
            limits.idle_ms = 1000;
            limits.grace_ms = 300;
        })
        .play()
        .await;
    let ended = Ended::Limit {
        limit: SessionLimit::Idle,
    };
    assert_eq!(played.end.ended, ended);
    let answered = played
        .entries
        .iter()
        .filter(|entry| matches!(entry.update, TranscriptUpdate::Request { .. }))
        .count();
    // Those that wait, and what fits into the pipe that it doesn't read.
    assert!((1000..8000).contains(&answered), "{answered}");
}

//! Agents that send bad messages: the session continues.

use ralph_shared::wire::{Ended, SessionLimit, TranscriptUpdate, Unavailable};

use super::scene::{scene, shell, turn};

#[tokio::test]
async fn bad_lines_are_skipped() {
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
async fn a_line_beyond_the_size_limit_is_skipped() {
    let played = scene("@say 1\n@long-line 17M\n@say 2").play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!(played.end.text, "1\n2\n");
    assert!(played.transcript().contains("too long to be read"));
}

/// Parsed as a tree, the message would take hundreds of megabytes.
#[tokio::test]
async fn a_message_of_too_many_values_is_skipped() {
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let update =
        |update: &str| format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}"#);
    let call = update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"x","rawInput":[0"#);
    let chunk = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"on"}}"#;
    let script = [
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
        "read -r l".to_owned(),
        format!("printf '{call}'; yes ,0 | head -n 3000000 | tr -d '\\n'; printf ']}}}}}}\\n'"),
        format!("printf '{}}}}}\\n'", update(chunk)),
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
async fn a_senseless_answer_is_a_protocol_error() {
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
async fn a_session_survives_a_flood_of_requests_whose_answers_go_unread() {
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
    // The queued answers, and those that fit into the unread pipe.
    assert!((1000..8000).contains(&answered), "{answered}");
}

#[tokio::test]
async fn text_after_the_end_of_the_turn_counts() {
    let played = scene("@write a.txt a\n@late 300 \\e[1m<task-done>\\e[0m{id}</task-done>")
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!(played.end.text, "<task-done>t-0123456789ab</task-done>\n");
}

#[tokio::test]
async fn messages_behind_invisible_terminal_output_are_read() {
    let before = "@raw \\m\\e]0;title\\e\\\\loading\\r|\\b\\e[0m";
    let played = scene(&format!("{before}\n@say heard\n{before}\n@done"))
        .play()
        .await;
    assert_eq!(played.end.text, "heard\n<task-done>t-0123456789ab</task-done>\n");
    assert_eq!(played.end.unread_output, None);
}

#[tokio::test]
async fn junk_lines_are_counted_and_control_sequences_removed() {
    let junk = "@junk \\e[33mLoading\\e[0m model...\n".repeat(3);
    let error = "@stderr \\e[31mno\\e[0m\n@error -32603 \\e[31mbroken\\e[0m";
    let played = scene(&format!("{junk}@run exit 3\n{error}")).play().await;
    let unread = "3 lines on standard output were no messages, the first: Loading model...";
    assert_eq!(played.end.unread_output.as_deref(), Some(unread));
    assert_eq!(played.end.stderr_tail, "no\n");
    assert_eq!((played.end.tool_calls, played.end.failed_tool_calls), (1, 1));
    assert!(
        matches!(&played.end.ended, Ended::Protocol { message } if message.contains("error: broken")),
        "{:?}",
        played.end.ended
    );
}

#[tokio::test]
async fn an_agent_that_only_reports_refusals_ends_before_it_is_idle() {
    let messages = [
        (
            "@stderr Error: 401 Unauthorized, retrying\n",
            Unavailable::Authentication,
        ),
        (
            "@stderr \\e[31mAPI error\\e[0m 429: rate limit, retrying\n",
            Unavailable::RateLimit,
        ),
        (
            "@say Error: 429 Too Many Requests, retrying in 4 s\n",
            Unavailable::RateLimit,
        ),
    ];
    for (message, expected) in messages {
        let script = format!(
            "@write a.txt a\n{}@silent",
            format!("{message}@wait 300\n").repeat(5)
        );
        let played = scene(&script)
            .limits(|limits| {
                limits.idle_ms = 8_000;
                limits.grace_ms = 300;
            })
            .play()
            .await;
        assert!(
            matches!(&played.end.ended, Ended::Unavailable { door, message } if *door == expected && message.contains("refuses it")),
            "{message} {:?}",
            played.end.ended
        );
    }
}

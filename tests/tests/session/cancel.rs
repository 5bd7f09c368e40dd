//! Ends of sessions by an order, by a limit, or by force.

use std::time::Instant;

use ralph_shared::wire::{EndReason, Ended, SessionLimit, TranscriptUpdate};

use ralph_worker::sandbox::{SandboxMode, bubblewrap};

use super::scene::{Played, Scene, scene, shell, turn};

fn limit(limit: SessionLimit) -> Ended {
    Ended::Limit { limit }
}

async fn interrupted(scene: Scene) -> (Ended, String) {
    let mut running = scene.start();
    running.until_said("up").await;
    running.order_end(EndReason::Interrupted);
    let played = running.finish().await;
    let transcript = played.transcript();
    (played.end.ended, transcript)
}

const INTERRUPTED: Ended = Ended::Told {
    reason: EndReason::Interrupted,
};

#[tokio::test]
async fn an_order_ends_the_turn_cleanly() {
    let began = Instant::now();
    let (ended, transcript) = interrupted(scene("@say up\n@silent")).await;
    assert_eq!(ended, INTERRUPTED);
    assert!(transcript.contains("the session is cancelled"), "{transcript}");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_order_counts_whatever_the_agent_answers() {
    let mut running = scene("@ignore-cancel\n@say up\n@wait-for go\n@stop max_tokens").start();
    running.until_said("up").await;
    running.order_end(EndReason::Drain);
    running
        .until(|update| matches!(update, TranscriptUpdate::Note { text } if text.contains("cancelled")))
        .await;
    std::fs::write(running.work().join("go"), "").unwrap();
    let played = running.finish().await;
    assert_eq!(
        played.end.ended,
        Ended::Told {
            reason: EndReason::Drain
        }
    );
}

#[tokio::test]
async fn an_order_before_the_start_prevents_it() {
    let running = scene("@say up").start();
    running.order_end(EndReason::Fenced);
    let played = running.finish().await;
    assert_eq!(
        played.end.ended,
        Ended::Told {
            reason: EndReason::Fenced
        }
    );
}

#[tokio::test]
async fn an_agent_that_ignores_everything_is_killed() {
    for script in [
        "@say up\n@hang",
        "@ignore-eof\n@say up\n@hang",
        "@ignore-term\n@ignore-eof\n@say up\n@hang",
        "@ignore-cancel\n@ignore-term\n@ignore-eof\n@say up\n@hang",
    ] {
        let (ended, _) = interrupted(scene(script).limits(|limits| limits.grace_ms = 100)).await;
        assert_eq!(ended, INTERRUPTED, "{script}");
    }
}

/// Cancels an agent that then continues with this script.
async fn in_the_grace(script: &str) -> Played {
    let mut running = scene(&format!("@ignore-cancel\n@say up\n@wait-for go\n{script}")).start();
    running.until_said("up").await;
    running.order_end(EndReason::Interrupted);
    running
        .until(|update| matches!(update, TranscriptUpdate::Note { .. }))
        .await;
    std::fs::write(running.work().join("go"), "").unwrap();
    let played = running.finish().await;
    assert_eq!(played.end.ended, INTERRUPTED);
    played
}

#[tokio::test]
async fn text_of_the_grace_period_still_counts() {
    let played = in_the_grace("@say after\n@done").await;
    assert!(played.end.text.contains("after"), "{}", played.end.text);
}

#[tokio::test]
async fn nothing_is_permitted_after_a_cancel() {
    let played = in_the_grace("@ask a thing\n@say after").await;
    assert!(!played.end.text.contains("allow"), "{}", played.end.text);
    let transcript = played.transcript();
    assert!(transcript.contains("cancelled, as its turn is"), "{transcript}");
}

#[tokio::test]
async fn silence_is_limited() {
    let played = scene("@say up\n@silent")
        .limits(|limits| limits.idle_ms = 300)
        .play()
        .await;
    assert_eq!(played.end.ended, limit(SessionLimit::Idle));
    assert_eq!(played.end.text, "up\n");
}

#[tokio::test]
async fn wall_time_is_limited_however_lively_the_agent_is() {
    let lively = "@think hm\n@wait 50\n".repeat(200);
    let played = scene(&lively)
        .limits(|limits| limits.session_ms = 500)
        .play()
        .await;
    assert_eq!(played.end.ended, limit(SessionLimit::Session));
}

#[tokio::test]
async fn output_is_limited() {
    let played = scene("@flood 20M\n@done")
        .limits(|limits| {
            limits.output_bytes = 1024 * 1024;
            limits.grace_ms = 1000;
        })
        .play()
        .await;
    assert_eq!(played.end.ended, limit(SessionLimit::Output));
    assert!(played.end.text_truncated);
    assert!(
        played.end.text.len() < 2 * 1024 * 1024,
        "{}",
        played.end.text.len()
    );
}

/// An agent that takes its prompt, runs `first`, and then exceeds its output limit, whatever order it gets.
fn flooding(first: &str) -> Scene {
    let chunk = |text: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    };
    let flood = chunk(&"x".repeat(200));
    let script = format!(
        "trap '' TERM; up() {{ echo '{}'; }}; read -r l; echo '{{\"id\":0,\"result\":{{\"protocolVersion\":1}}}}'; \
         read -r l; echo '{{\"id\":1,\"result\":{{\"sessionId\":\"s\"}}}}'; read -r l; {first}; exec yes '{flood}'",
        chunk("up")
    );
    shell(&script).limits(|limits| {
        limits.output_bytes = 256 * 1024;
        limits.grace_ms = 500;
    })
}

fn is_cut(played: &Played) {
    assert!(played.end.text_truncated);
    let bytes = played.end.text.len();
    assert!(bytes <= 256 * 1024, "{bytes} bytes");
}

#[tokio::test]
async fn output_is_limited_after_the_turn_too() {
    let played = flooding(r#"echo '{"id":2,"result":{"stopReason":"end_turn"}}'"#)
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"));
    is_cut(&played);
}

#[tokio::test]
async fn output_is_limited_while_the_session_is_cancelled() {
    let mut running = flooding("up; read -r l").start();
    running.until_said("up").await;
    running.order_end(EndReason::Interrupted);
    let played = running.finish().await;
    assert_eq!(played.end.ended, INTERRUPTED);
    is_cut(&played);
}

#[tokio::test]
async fn tool_calls_are_limited() {
    let played = scene(&"@read a\n".repeat(20))
        .limits(|limits| limits.tool_calls = 5)
        .play()
        .await;
    assert_eq!(played.end.ended, limit(SessionLimit::ToolCalls));
}

#[tokio::test]
async fn usage_updates_are_no_progress() {
    let usage = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":2}}}"#;
    let script = format!(
        "read -r l; echo '{{\"id\":0,\"result\":{{\"protocolVersion\":1}}}}'; read -r l; \
         echo '{{\"id\":1,\"result\":{{\"sessionId\":\"s\"}}}}'; read -r l; while echo '{usage}'; do sleep 0.05; done"
    );
    let played = shell(&script)
        .limits(|limits| {
            limits.idle_ms = 400;
            limits.grace_ms = 100;
        })
        .play()
        .await;
    assert_eq!(played.end.ended, limit(SessionLimit::Stall));
}

const UP: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"up"}}}}"#;

#[tokio::test]
async fn sigterm_reaches_the_agent_in_any_sandbox_and_leaves_it_time() {
    let answer = |id: u8, result: &str| format!("read -r l; echo '{{\"id\":{id},\"result\":{result}}}'");
    let script = [
        "trap 'echo bye > bye; exit 0' TERM".to_owned(),
        answer(0, r#"{"protocolVersion":1}"#),
        answer(1, r#"{"sessionId":"s"}"#),
        format!("read -r l; echo '{UP}'; while :; do sleep 0.05; done"),
    ];
    for mode in [SandboxMode::None, SandboxMode::Landlock, SandboxMode::Bubblewrap] {
        if mode == SandboxMode::Bubblewrap && bubblewrap().is_none() {
            eprintln!("bubblewrap is not installed here, or can't make namespaces: not tried");
            continue;
        }
        let mut stage = shell(&script.join("; ")).limits(|limits| limits.grace_ms = 5_000);
        stage.spec.sandbox.mode = mode;
        let mut running = stage.start();
        running.until_said("up").await;
        running.order_end(EndReason::Interrupted);
        let played = running.finish().await;
        assert_eq!(played.end.ended, INTERRUPTED, "{mode:?}");
        assert!(played.path("bye").exists(), "{mode:?}: {}", played.transcript());
    }
}

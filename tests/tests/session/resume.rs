//! Agents whose process ends in the middle of a turn, and which can resume their session.

use std::sync::{Arc, Mutex};

use ralph_shared::wire::{EndReason, Ended, SessionLimit, Unavailable};
use ralph_tests::harness::until;
use ralph_worker::session::Check;

use super::scene::{Scene, lives, orphan, scene, turn};

const AFTER_EXIT: &str = "Your process was started again.";

/// A scene with an agent that stores its sessions.
fn keeping(script: &str) -> Scene {
    let mut scene = scene(script).arguments(&["--keep-sessions"]);
    scene.spec.after_exit = Some(AFTER_EXIT.to_owned());
    scene
        .spec
        .env
        .insert("RALPH_TASK".to_owned(), "t-0123456789ab".to_owned());
    scene
}

fn killed() -> Ended {
    Ended::AgentExited {
        code: None,
        signal: Some(9),
    }
}

#[tokio::test]
async fn a_killed_agent_resumes_its_session() {
    let script = format!(
        "@say one\n@write a.txt first\n@usage 100 10 0.5\n@kill\n@if-prompt-has {AFTER_EXIT} : @say two\n\
         @run cat a.txt\n@usage 20 5 0.75\n@done"
    );
    let played = keeping(&script).play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    assert_eq!(
        played.end.text,
        "one\ntwo\n<task-done>t-0123456789ab</task-done>\n"
    );
    // The sums of both processes.
    assert_eq!(played.end.tool_calls, 2);
    assert_eq!(played.end.usage.cost_usd, Some(1.25));
    assert!(
        played
            .transcript()
            .contains("was killed by signal 9: it is started again, to resume its session"),
        "{}",
        played.transcript()
    );
}

/// Like [`keeping`], with a second process that runs `first` first.
fn restarting(script: &str, first: &str) -> Scene {
    let mut scene = keeping(script);
    let line = format!("if [ -e started ]; then {first}; fi; touch started; exec \"$0\" \"$@\"");
    scene
        .spec
        .agent
        .argv
        .splice(0..0, ["sh".to_owned(), "-c".to_owned(), line]);
    scene
}

#[tokio::test]
async fn an_order_during_the_restart_is_the_sessions_end() {
    let hangs = "touch hangs; set -- \"$@\" --handshake hang";
    let running = restarting("@say one\n@kill\n@say two\n@done", hangs).start();
    let hangs = running.work().join("hangs");
    until("an agent that hangs", async || hangs.exists()).await;
    running.order_end(EndReason::Drain);
    let played = running.finish().await;
    let reason = EndReason::Drain;
    assert_eq!(played.end.ended, Ended::Told { reason });
    assert_eq!(played.end.text, "one\n");
}

#[tokio::test]
async fn a_provider_that_refuses_the_second_process_is_no_crash() {
    let refused = "echo 'API Error: 429 Too Many Requests' >&2; exit 1";
    let played = restarting("@say one\n@kill\n@done", refused).play().await;
    assert!(
        matches!(
            played.end.ended,
            Ended::Unavailable {
                door: Unavailable::RateLimit,
                ..
            }
        ),
        "{:?}",
        played.end.ended
    );
    let exits = restarting("@say one\n@kill\n@done", "exit 1").play().await;
    assert_eq!(exits.end.ended, killed());
}

#[tokio::test]
async fn the_model_is_set_again_if_a_loaded_session_does_not_name_it() {
    let played = keeping("@model\n@kill\n@model\n@done")
        .arguments(&["--bare-load"])
        .model("Opus")
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    assert_eq!(
        played.end.text.matches("model opus").count(),
        2,
        "{}",
        played.end.text
    );
    assert_eq!(played.end.agent.model.as_deref(), Some("opus"));
}

#[tokio::test]
async fn a_refused_graph_is_dropped_when_the_correction_crashes() {
    let mut stage = keeping(
        "@unless-prompt-has Correct : @say <task-graph>old</task-graph>\n\
         @if-prompt-has Correct : @say <task-graph>new</task-graph>\n@if-prompt-has Correct : @kill",
    );
    let looked = Arc::new(Mutex::new(Vec::new()));
    let seen = looked.clone();
    stage.check = Some(Check::new(move |text| {
        let mut seen = seen.lock().unwrap();
        seen.push(text);
        let first = seen.len() == 1;
        Box::pin(async move { first.then(|| "Correct it.".to_owned()) })
    }));
    let played = stage.play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    let looked = looked.lock().unwrap();
    assert_eq!(looked.len(), 2);
    for text in [&looked[1], &played.end.text] {
        assert!(
            text.contains("<task-graph>new") && !text.contains("<task-graph>old"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_agent_is_restarted_at_most_once() {
    let played = keeping("@say one\n@exit 3\n@say two\n@kill\n@say three\n@done")
        .play()
        .await;
    assert_eq!(played.end.ended, killed());
    assert_eq!(played.end.text, "one\ntwo\n");
}

#[tokio::test]
async fn a_session_that_cannot_be_resumed_ends_as_its_process_did() {
    let script = "@say one\n@run rm -r \"$HOME/.ralph-scripted-agent\"; kill -9 $PPID\n@done";
    let stage = keeping(script);
    let played = stage.play().await;
    assert_eq!(played.end.ended, killed(), "{}", played.transcript());
    let transcript = played.transcript();
    assert!(
        transcript.contains("the agent refused `session/load`"),
        "{transcript}"
    );
}

#[tokio::test]
async fn an_agent_that_stores_no_sessions_is_not_restarted() {
    let mut stage = scene("@say one\n@kill\n@say two");
    stage.spec.after_exit = Some(AFTER_EXIT.to_owned());
    let played = stage.play().await;
    assert_eq!(played.end.ended, killed());
    assert!(!played.transcript().contains("started again"));
}

#[tokio::test]
async fn limits_hold_for_both_processes_together() {
    let calls = "@run true\n@run true\n@kill\n@run true\n@run true\n@done";
    let played = keeping(calls).limits(|limits| limits.tool_calls = 3).play().await;
    let ended = Ended::Limit {
        limit: SessionLimit::ToolCalls,
    };
    assert_eq!(played.end.ended, ended, "{}", played.transcript());
    let bytes = "@flood 60K\n@kill\n@flood 60K\n@done";
    let played = keeping(bytes)
        .limits(|limits| limits.output_bytes = 100 * 1024)
        .play()
        .await;
    let ended = Ended::Limit {
        limit: SessionLimit::Output,
    };
    assert_eq!(played.end.ended, ended);
}

#[tokio::test]
async fn text_repeated_by_a_loaded_session_is_no_output() {
    let played = keeping("@flood 60K\n@kill\n@flood 20K\n@done")
        .limits(|limits| limits.output_bytes = 100 * 1024)
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"), "{:?}", played.end.ended);
    assert_eq!(played.end.text.matches('x').count(), 80 * 1024);
}

#[tokio::test]
async fn no_child_of_the_first_process_outlives_it() {
    let script = "@orphan 600\n@kill\n@say second\n@wait-for looked\n@done";
    let mut running = keeping(script).start();
    running.until_said("second").await;
    let text = running.text();
    assert!(!lives(orphan(&text)), "{text}");
    std::fs::write(running.work().join("looked"), "").unwrap();
    let played = running.finish().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
}

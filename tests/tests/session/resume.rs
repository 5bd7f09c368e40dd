//! Agents whose process ends in the middle of a turn, and who can resume their session.

use ralph_shared::wire::{Ended, SessionLimit};

use super::scene::{Scene, scene, turn};

const AFTER_EXIT: &str = "Your process was started again.";

/// A scene with an agent that keeps its sessions.
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
async fn a_killed_agent_goes_on_where_it_was() {
    let script = format!(
        "@say one\n@write a.txt first\n@usage 100 10 0.5\n@kill\n@if-prompt-has {AFTER_EXIT} : @say two\n\
         @run cat a.txt\n@usage 20 5 0.25\n@done"
    );
    let played = keeping(&script).play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    assert_eq!(
        played.end.text,
        "one\ntwo\n<task-done>t-0123456789ab</task-done>\n"
    );
    // What both processes called and used.
    assert_eq!(played.end.tool_calls, 2);
    assert_eq!(played.end.usage.cost_usd, Some(0.75));
    assert!(
        played
            .transcript()
            .contains("was killed by signal 9: it is started again, to resume its session"),
        "{}",
        played.transcript()
    );
}

#[tokio::test]
async fn only_one_more_process_is_started() {
    let played = keeping("@say one\n@exit 3\n@say two\n@kill\n@say three\n@done")
        .play()
        .await;
    assert_eq!(played.end.ended, killed());
    assert_eq!(played.end.text, "one\ntwo\n");
}

#[tokio::test]
async fn a_session_that_is_gone_leaves_the_first_end() {
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
async fn an_agent_that_keeps_no_sessions_is_not_started_again() {
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
async fn nothing_of_the_first_process_is_left_to_the_second() {
    let script = "@orphan 600\n@kill\n@run for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | \
                  grep -q -- '[-]-orphan-live' && tr '\\0' '\\n' < $p/environ | grep -qx \"RALPH_DISPATCH=$RALPH_DISPATCH\" && \
                  echo alive >> found; done; touch looked\n@done";
    let played = keeping(script).play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    assert!(played.path("looked").exists() && !played.path("found").exists());
}

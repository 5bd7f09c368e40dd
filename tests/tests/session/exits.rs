//! Agents that go without a word, and what they leave.

use std::time::Instant;

use ralph_shared::wire::Ended;
use ralph_worker::session::kill_leftovers;

use super::scene::{scene, turn};

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[tokio::test]
async fn exits_are_told_with_code_or_signal() {
    let rows = [
        ("@crash", Some(101), None),
        ("@exit 7", Some(7), None),
        ("@exit 0", Some(0), None),
        ("@kill", None, Some(9)),
    ];
    for (directive, code, signal) in rows {
        let played = scene(&format!("@say last words\n{directive}")).play().await;
        assert_eq!(
            played.end.ended,
            Ended::AgentExited { code, signal },
            "{directive}"
        );
        assert_eq!(played.end.text, "last words\n");
    }
}

#[tokio::test]
async fn closed_pipes_end_the_session_long_before_it_is_idle() {
    for (directive, words) in [
        ("@close-stdout", "closed its output"),
        ("@close-stdin", "closed its input"),
    ] {
        let began = Instant::now();
        let played = scene(&format!("@say hi\n{directive}\n@hang"))
            .limits(|limits| limits.grace_ms = 200)
            .play()
            .await;
        let Ended::Protocol { message } = &played.end.ended else {
            panic!("{directive}: {:?}", played.end.ended)
        };
        assert!(message.contains(words), "{message}");
        assert_eq!(played.end.text, "hi\n");
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn detached_children_do_not_outlive_the_session() {
    let played = scene("@orphan 600\n@done").play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    let pid = played
        .end
        .text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("orphan ")
        .unwrap();
    assert!(!lives(pid), "{pid}");
    assert!(played.transcript().contains("outlived the session"));
}

#[tokio::test]
async fn children_of_a_crashed_agent_go_as_well() {
    let played = scene("@orphan 600\n@run sleep 600 >/dev/null 2>&1 & echo $!\n@crash")
        .play()
        .await;
    assert!(matches!(
        played.end.ended,
        Ended::AgentExited { code: Some(101), .. }
    ));
    let pid = played
        .end
        .text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("orphan ")
        .unwrap();
    assert!(!lives(pid), "{pid}");
}

#[tokio::test]
async fn a_dropped_session_takes_its_processes_along() {
    let mut running = scene("@orphan 600\n@run echo $PPID\n@say up\n@hang").start();
    running.until_said("up").await;
    let dispatch = running.abort().await;
    kill_leftovers(&dispatch);
    assert_eq!(kill_leftovers(&dispatch), 0);
}

#[tokio::test]
async fn standard_error_is_kept_at_its_end_and_never_blocks() {
    let played = scene("@run head -c 3000000 /dev/zero | tr '\\0' e >/proc/$PPID/fd/2; echo the end >/proc/$PPID/fd/2\n@say over")
        .play()
        .await;
    assert_eq!(played.end.text, "over\n");
    let tail = &played.end.stderr_tail;
    assert!(
        tail.ends_with("e\nthe end\n") || tail.ends_with("ethe end\n"),
        "{}",
        tail.len()
    );
    assert!(tail.len() <= 16 * 1024);
}

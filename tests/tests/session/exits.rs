//! Agents that exit or close their pipes, and the processes that they leave.

use std::time::Instant;

use ralph_shared::wire::Ended;
use ralph_tests::harness::until;
use ralph_worker::session::kill_leftovers;

use super::scene::{lives, orphan, scene, turn};

#[tokio::test]
async fn exits_are_reported_with_their_code_or_signal() {
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
async fn closed_pipes_end_the_session_before_its_idle_limit() {
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
    let pid = orphan(&played.end.text);
    assert!(!lives(pid), "{pid}");
    assert!(played.transcript().contains("outlived the session"));
}

#[tokio::test]
async fn processes_that_shed_every_mark_do_not_outlive_the_session() {
    let shed =
        "@run env -i PATH=$PATH setsid sh -c 'sleep 600 </dev/null >/dev/null 2>&1 & echo $! > pid'\n@done";
    let played = scene(shed).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    let pid = std::fs::read_to_string(played.path("pid")).unwrap();
    assert!(!lives(pid.trim()), "{pid}");
}

/// Marks a process that runs a single test.
const ALONE: &str = "RALPH_TEST_ALONE";

/// Runs `test` (its full name) again in its own process and fails if it fails; returns `false`, and `true`
/// within that run. Tests of one process share its open files.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "alone: {errors}");
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("1 passed"), "`{test}` is no test: {ran}");
    false
}

#[tokio::test]
async fn nothing_grows_over_many_sessions() {
    if !is_alone("exits::nothing_grows_over_many_sessions") {
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let mut after_some = None;
    for round in 0..30 {
        let played = scene("@term echo hi\n@fs-write a x\n@orphan 600\n@done")
            .play()
            .await;
        assert_eq!(played.end.ended, turn("end_turn"));
        if round == 5 {
            after_some = Some((open(), threads()));
        }
    }
    let (files_before, threads_before) = after_some.unwrap();
    assert!(
        open() <= files_before + 2,
        "{} files, {files_before} before",
        open()
    );
    assert!(
        threads() <= threads_before + 4,
        "{} threads, {threads_before} before",
        threads()
    );
}

#[tokio::test]
async fn children_of_a_crashed_agent_are_killed() {
    let played = scene("@orphan 600\n@run sleep 600 >/dev/null 2>&1 & echo $!\n@crash")
        .play()
        .await;
    assert!(matches!(
        played.end.ended,
        Ended::AgentExited { code: Some(101), .. }
    ));
    let pid = orphan(&played.end.text);
    assert!(!lives(pid), "{pid}");
}

#[tokio::test]
async fn a_dropped_session_kills_its_processes() {
    let mut running = scene("@orphan 600\n@run echo $PPID > agent\n@say up\n@hang").start();
    running.until_said("up").await;
    let agent = std::fs::read_to_string(running.work().join("agent")).unwrap();
    let pids = [agent.trim().to_owned(), orphan(&running.text()).to_owned()];
    assert!(pids.iter().all(|pid| lives(pid)), "{pids:?}");
    // Only the session itself kills them.
    let (dispatch, folder) = running.abort().await;
    until("the end of its processes", async || {
        !pids.iter().any(|pid| lives(pid))
    })
    .await;
    assert_eq!(kill_leftovers(&dispatch), 0);
    drop(folder);
}

#[tokio::test]
async fn the_end_of_standard_error_is_kept_and_it_never_blocks() {
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

//! Tests with real child processes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;

/// Only a failing test reaches this limit.
const BOUND: Duration = Duration::from_secs(30);

fn shell(folder: &Path, script: &str) -> ChildSpec {
    ChildSpec::new("script", "/bin/sh", folder.join("log")).args(["-c", script])
}

fn quick() -> Backoff {
    Backoff {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(4),
        ..Backoff::default()
    }
}

async fn reaches(phases: &mut watch::Receiver<Phase>, wanted: impl FnMut(&Phase) -> bool) -> Phase {
    tokio::time::timeout(BOUND, phases.wait_for(wanted))
        .await
        .unwrap()
        .unwrap()
        .clone()
}

/// Polls until `holds` is true; panics after [`BOUND`].
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    let wait = async {
        while !holds() {
            tick.tick().await;
        }
    };
    tokio::time::timeout(BOUND, wait)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

fn is_alive(pid: u32) -> bool {
    // A zombie has ended.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_child_that_ends_is_restarted_and_its_output_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let supervised = Supervised::start(shell(folder.path(), "echo last words; exit 3"), quick());
    let mut phases = supervised.phases();
    let third = reaches(&mut phases, |phase| {
        matches!(phase, Phase::BackingOff { exits: 3.., .. })
    })
    .await;
    let Phase::BackingOff { problem, .. } = third else {
        unreachable!()
    };
    assert!(
        problem.contains("exit status: 3") && problem.contains("last words"),
        "{problem}"
    );
    supervised.stop().await;
    assert_eq!(*phases.borrow(), Phase::Stopped);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.lines().count() >= 3, "{log}");
}

#[tokio::test]
async fn a_child_that_may_finish_is_started_again_only_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again");
    let script = format!(
        "echo begun; test -e {0} && exit 7; touch {0}; exit 3",
        again.display()
    );
    let supervised = Supervised::start(shell(folder.path(), &script).may_finish(7), quick());
    let mut phases = supervised.phases();
    reaches(&mut phases, |phase| *phase == Phase::Finished).await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.matches("begun").count(), 2, "{log}");
    supervised.stop().await;
    assert_eq!(*phases.borrow(), Phase::Stopped);
}

#[tokio::test]
async fn a_killed_child_is_restarted_and_a_stopped_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done";
    let supervised = Supervised::start(shell(folder.path(), script), quick());
    let mut phases = supervised.phases();
    let running =
        |starts: u32| move |phase: &Phase| matches!(phase, Phase::Running { starts: n, .. } if *n == starts);
    let Phase::Running { pid: first, .. } = reaches(&mut phases, running(1)).await else {
        unreachable!()
    };
    let log = folder.path().join("log");
    let trapped = |times, log: &str| log.matches("up").count() == times;
    until("the first trap", || {
        trapped(1, &fs::read_to_string(&log).unwrap())
    })
    .await;
    kill(Pid::from_raw(first.cast_signed()), Signal::SIGKILL).unwrap();
    let Phase::Running { pid: second, .. } = reaches(&mut phases, running(2)).await else {
        unreachable!()
    };
    assert_ne!(first, second);

    until("the second trap", || {
        trapped(2, &fs::read_to_string(&log).unwrap())
    })
    .await;
    supervised.stop().await;
    assert!(!is_alive(second));
    assert!(
        fs::read_to_string(&log).unwrap().ends_with("bye\n"),
        "it was asked before it was killed"
    );
}

#[tokio::test]
async fn the_error_names_a_missing_program() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ChildSpec::new("agent", "/no/such/program", folder.path().join("log"));
    let error = Process::spawn(&spec).unwrap_err();
    assert_eq!(error.to_string(), "failed to start agent (/no/such/program)");

    let supervised = Supervised::start(spec, quick());
    let phase = reaches(&mut supervised.phases(), |phase| {
        matches!(phase, Phase::BackingOff { .. })
    })
    .await;
    let Phase::BackingOff { problem, .. } = phase else {
        unreachable!()
    };
    assert!(problem.contains("No such file"), "{problem}");
}

#[tokio::test]
async fn stop_ends_with_sigkill_of_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; sleep 1000 & echo $!; echo ready; while :; do wait; done";
    let spec = shell(folder.path(), script).stop_steps([StopStep {
        signal: Signal::SIGTERM,
        grace: Duration::from_millis(100),
    }]);
    let process = Process::spawn(&spec).unwrap();
    until("the script", || process.log_tail().contains("ready")).await;
    let grandchild: u32 = process.log_tail().lines().next().unwrap().parse().unwrap();
    assert!(is_alive(grandchild));
    let status = process.stop().await;
    assert_eq!(status.signal(), Some(9));
    until("the grandchild's end", || !is_alive(grandchild)).await;
}

#[tokio::test]
async fn a_grandchild_ends_with_the_child() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::spawn(&shell(folder.path(), "sleep 1000 & echo $!")).unwrap();
    assert!(process.wait().await.success());
    let grandchild: u32 = process.log_tail().trim().parse().unwrap();
    until("the grandchild's end", || !is_alive(grandchild)).await;
}

#[tokio::test]
async fn dropping_a_child_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::spawn(&shell(folder.path(), "exec sleep 1000")).unwrap();
    let pid = process.pid();
    assert!(is_alive(pid));
    drop(process);
    until("its end", || !is_alive(pid)).await;
}

#[tokio::test]
async fn a_child_gets_the_environment_and_folder_of_its_spec() {
    let folder = tempfile::tempdir().unwrap();
    let spec = shell(folder.path(), "pwd; env")
        .clear_env()
        .env("ONLY", "this")
        .folder(folder.path());
    let process = Process::spawn(&spec).unwrap();
    assert!(process.wait().await.success());
    let output = process.log_tail();
    let root = folder.path().canonicalize().unwrap();
    assert_eq!(output.lines().next().unwrap(), root.to_str().unwrap());
    assert!(
        output.contains("ONLY=this") && !output.contains("HOME="),
        "{output}"
    );
    assert!(!format!("{spec:?}").contains("this"), "values may be passwords");
}

#[tokio::test]
async fn a_hurried_stop_sends_the_signal_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = "n=0; trap 'n=$((n+1)); echo heard; [ $n = 2 ] && exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let spec = shell(folder.path(), script).stop_steps([StopStep {
        signal: Signal::SIGTERM,
        grace: Duration::from_secs(600),
    }]);
    let process = Process::spawn(&spec).unwrap();
    until("the script", || process.log_tail().contains("ready")).await;
    let hurry = CancellationToken::new();
    let stops = process.stop_until(&hurry);
    let (status, ()) = tokio::join!(stops, async {
        until("the first signal", || process.log_tail().contains("heard")).await;
        hurry.cancel();
    });
    assert_eq!(status.code(), Some(7));
}

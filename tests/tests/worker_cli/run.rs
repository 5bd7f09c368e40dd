//! `ralph-worker run` when it can't begin.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::bench::Bench;

#[test]
fn an_unreachable_broker_is_named_without_its_login() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let mut worker = bench
        .worker(&["run", "--sandbox", "none"])
        .env("NATS_URL", format!("nats://somebody:hidden@127.0.0.1:{port}"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = String::new();
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
    for line in lines.by_ref() {
        stderr.push_str(&line.unwrap());
        stderr.push('\n');
        if stderr.contains("not welcomed yet") {
            break;
        }
    }
    assert!(
        stderr.contains(&format!("NATS at 127.0.0.1:{port} can't be reached")),
        "{stderr}"
    );
    assert!(
        !stderr.contains("hidden") && !stderr.contains("somebody"),
        "{stderr}"
    );
    kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(worker.wait().unwrap().success());
}

#[test]
fn a_missing_folder_stops_the_worker() {
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let refused = bench.output(&["run", "--sandbox", "none", "--dir", "/no/such/folder"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(
        words.contains("no folder /no/such/folder") && words.contains("--dir"),
        "{words}"
    );
}

//! `ralph-worker run`, where it can't begin.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::bench::Bench;

#[test]
fn a_broker_that_is_away_is_named_without_its_login() {
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
    let mut said = String::new();
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
    for line in lines.by_ref() {
        said.push_str(&line.unwrap());
        said.push('\n');
        if said.contains("not welcomed yet") {
            break;
        }
    }
    assert!(
        said.contains(&format!("NATS at 127.0.0.1:{port} can't be reached")),
        "{said}"
    );
    assert!(!said.contains("hidden") && !said.contains("somebody"), "{said}");
    kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(worker.wait().unwrap().success());
}

#[test]
fn a_folder_that_is_not_there_stops_the_worker() {
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let refused = bench.output(&["run", "--sandbox", "none", "--dir", "/no/such/folder"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(
        words.contains("no folder /no/such/folder") && words.contains("--dir"),
        "{words}"
    );
}

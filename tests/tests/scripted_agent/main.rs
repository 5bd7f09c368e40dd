//! The scripted agent over real pipes: well-behaved scripts through the ACP crate, others line by line.
#![allow(clippy::unwrap_used)]

mod behaved;
mod client;
mod examples;
mod misbehaved;
mod wire;

use std::path::Path;
use std::time::Duration;

/// No test takes a second; a test that waits in vain ends after this time.
const DEADLINE: Duration = Duration::from_secs(30);

const AGENT: &str = env!("CARGO_BIN_EXE_ralph-scripted-agent");

/// A prompt as the coordinator builds it, with directives outside the description that must not run.
fn prompt(description: &str) -> String {
    format!(
        "You work on one task.\n@crash\n\n## Assigned Task\nID: t-0123456789ab\nTitle: A title\nDescription:\n{description}\n\n\
         ### Previous Attempts\n@crash\na lesson learned\n\n## How to report\n@crash\n"
    )
}

/// Whether this process exists and is no zombie.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

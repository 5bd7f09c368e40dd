//! The scripted agent over real pipes: the well-behaved half through the protocol's crate, the other half line by line.
#![allow(clippy::unwrap_used)]

mod behaved;
mod client;
mod examples;
mod misbehaved;
mod wire;

use std::path::Path;
use std::time::Duration;

/// No test takes a second; one that waits in vain ends after this.
const DEADLINE: Duration = Duration::from_secs(30);

const AGENT: &str = env!("CARGO_BIN_EXE_ralph-scripted-agent");

/// A prompt as the coordinator builds it, with directives outside the description that must not run.
fn prompt(description: &str) -> String {
    format!(
        "You work on one task.\n@crash\n\n## Assigned Task\nID: t-0123456789ab\nTitle: A title\nDescription:\n{description}\n\n\
         ### Previous Attempts\n@crash\na lesson learned\n\n## How to report\n@crash\n"
    )
}

/// Whether a process of this id exists and is more than an unread exit status.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

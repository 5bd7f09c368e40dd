//! The coordinator and the workers as child processes. They get passwords through the environment, never as
//! arguments.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use ralph_cli::machine::programs::Programs;
use ralph_shared::agents::requires::DRAINED_STATUS;

use super::args::UpArgs;
use super::servers::Servers;
use crate::embedded::{Backoff, ChildSpec, DataDir, DataDirError, StopStep, Supervised};

/// Time for a coordinator to answer its last requests.
const COORDINATOR_GRACE: Duration = Duration::from_secs(15);
/// Time for a worker, after its drain, to end its sessions, push and report.
const WORKER_GRACE: Duration = Duration::from_secs(60);
/// Exit status of a drained worker, which isn't started again.
const DRAINED: i32 = 10;

/// Variables for this process alone, or set for each child separately. Their `_FILE` variants count as well.
const OURS_ALONE: [&str; 8] = [
    "DATABASE_URL",
    "NATS_URL",
    "RALPH_WORKER_NATS_URL",
    "RALPH_TOKEN",
    "RALPH_URL",
    "RALPH_DATA",
    "RALPH_AGENT",
    "RALPH_HEALTH_LISTEN",
];

#[derive(Debug)]
pub struct Child {
    pub name: String,
    pub supervised: Supervised,
}

pub fn coordinator(
    programs: &Programs,
    data: &DataDir,
    servers: &Servers,
    listen: SocketAddr,
    token_file: &Path,
) -> Child {
    let spec = own_program("coordinator", &programs.coordinator, data, servers)
        .args(["serve"])
        .env("DATABASE_URL", &servers.database_url)
        .env("NATS_URL", &servers.nats_url)
        .env("RALPH_LISTEN", listen.to_string())
        .env("RALPH_TOKEN_FILE", token_file)
        .stop_steps([StopStep {
            signal: Signal::SIGTERM,
            grace: COORDINATOR_GRACE,
        }]);
    start("coordinator", spec)
}

/// Starts a worker with its own folder, which belongs to its name.
pub fn worker(
    programs: &Programs,
    data: &DataDir,
    servers: &Servers,
    args: &UpArgs,
    name: &str,
) -> Result<Child, DataDirError> {
    data.folder("workers")?;
    let folder = data.folder(format!("workers/{name}"))?;
    let drain = args.drain_timeout.0;
    let mut spec = own_program(name, &programs.worker, data, servers)
        .args(["run", "--name", name, "--slots", &args.slots.to_string()])
        .args(["--data".into(), folder.into_os_string()])
        .env("NATS_URL", &servers.worker_nats_url)
        .env("RALPH_DRAIN_SECONDS", drain.as_secs().to_string())
        .stop_steps([StopStep {
            signal: Signal::SIGTERM,
            grace: drain + WORKER_GRACE,
        }])
        .env(DRAINED_STATUS, DRAINED.to_string())
        .may_finish(DRAINED);
    for pool in &args.pools {
        spec = spec.args(["--pool", pool]);
    }
    if let Some(here) = shared_folder(data) {
        spec = spec.env("RALPH_DIRS", here);
    }
    if let Some(agent) = &args.agent {
        spec = spec.args(["--agent", agent]);
    }
    Ok(start(name, spec))
}

/// The current folder, in which agents may work directly. `None` if it contains the data folder, which no
/// agent may see, or if `RALPH_DIRS` names other folders.
fn shared_folder(data: &DataDir) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    let root = data.root().canonicalize().ok()?;
    let chosen = std::env::var_os("RALPH_DIRS").is_some_and(|dirs| !dirs.is_empty());
    // `RALPH_DIRS` is separated by commas.
    let is_one = !here.as_os_str().as_encoded_bytes().contains(&b',');
    (!chosen && is_one && here.parent().is_some() && !root.starts_with(&here)).then_some(here)
}

/// One of our programs with our environment, without the variables that it must not inherit.
fn own_program(name: &str, program: &Path, data: &DataDir, servers: &Servers) -> ChildSpec {
    let inherits = |key: &OsStr| {
        let key = key.to_string_lossy();
        let key = key.strip_suffix("_FILE").unwrap_or(&key);
        let of_another_broker = servers.has_private_nats() && key.starts_with("NATS_");
        !OURS_ALONE.contains(&key) && !of_another_broker
    };
    let mut spec = ChildSpec::new(name, program, data.log(name)).clear_env();
    for (key, value) in std::env::vars_os() {
        if inherits(&key) {
            spec = spec.env(key, value);
        }
    }
    spec
}

fn start(name: &str, spec: ChildSpec) -> Child {
    Child {
        name: name.to_owned(),
        supervised: Supervised::start(spec, Backoff::default()),
    }
}

//! The Postgres and the nats-server of a measurement: private ones, or those at given addresses.
//!
//! A private Postgres has the settings of its package (fsync on), except for its address and its number of
//! connections, as in comparable benchmarks. The embedded servers of `up` are tuned, so they are not used
//! here.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use ralph_coordinator::embedded::runas::RunAs;
use ralph_coordinator::embedded::{ChildSpec, Process, SearchPaths, StopStep};
use tempfile::TempDir;

use crate::process;

/// A server that doesn't respond within this time has failed.
const START: Duration = Duration::from_secs(60);

/// Addresses of the servers.
#[derive(Debug, Clone, clap::Args)]
pub struct Addresses {
    /// Postgres to measure on, without a database: postgres://USER@HOST:PORT [default: a private one]
    #[arg(long, global = true, value_name = "URL")]
    pub postgres: Option<String>,
    /// nats-server with JetStream to measure on [default: a private one]
    #[arg(long, global = true, value_name = "URL")]
    pub nats: Option<String>,
}

/// Running servers. Dropping them stops the private ones and deletes their data.
pub struct Servers {
    postgres: String,
    nats: String,
    postgres_pid: Option<u32>,
    /// Dropped before `dir`: the processes end before their folder is deleted.
    _processes: Vec<Process>,
    dir: TempDir,
}

impl Servers {
    /// Starts the servers without a given address.
    ///
    /// # Errors
    /// When a server is missing (`make setup`) or doesn't start.
    pub async fn start(addresses: &Addresses) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let mut processes = Vec::new();
        let mut postgres_pid = None;
        let postgres = match &addresses.postgres {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let (process, url) = start_postgres(dir.path()).await?;
                postgres_pid = Some(process.pid());
                processes.push(process);
                url
            }
        };
        let nats = match &addresses.nats {
            Some(url) => url.clone(),
            None => {
                let (process, url) = start_nats(dir.path()).await?;
                processes.push(process);
                url
            }
        };
        Ok(Self {
            postgres,
            nats,
            postgres_pid,
            _processes: processes,
            dir,
        })
    }

    pub fn database_url(&self, name: &str) -> String {
        format!("{}/{name}", self.postgres)
    }

    pub fn nats_url(&self) -> &str {
        &self.nats
    }

    /// Folder for logs of processes beside the servers.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Stops the processes of the private Postgres until the returned value is dropped; `None` when Postgres
    /// was given.
    pub fn stop_postgres(&self) -> anyhow::Result<Option<StoppedProcesses>> {
        let Some(server) = self.postgres_pid else {
            return Ok(None);
        };
        let mut stopped = StoppedProcesses(Vec::new());
        // The server first, so that it starts no further process.
        for pid in std::iter::once(server).chain(process::children(server)?) {
            let pid = Pid::from_raw(i32::try_from(pid)?);
            signal::kill(pid, Signal::SIGSTOP)?;
            stopped.0.push(pid);
        }
        Ok(Some(stopped))
    }

    /// The private Postgres' log, or `None` when Postgres was given.
    pub fn postgres_log(&self) -> Option<String> {
        fs::read_to_string(self.dir.path().join("postgres.log")).ok()
    }
}

/// Stopped processes, which continue on drop.
pub struct StoppedProcesses(Vec<Pid>);

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = signal::kill(*pid, Signal::SIGCONT);
        }
    }
}

async fn start_postgres(dir: &Path) -> anyhow::Result<(Process, String)> {
    let found = SearchPaths::from_env().postgres()?;
    let bin = &found.first().context("found no Postgres")?.bin;
    let user = RunAs::for_postgres()?;
    let data = dir.join("postgres");
    fs::create_dir(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    if let Some(user) = &user {
        chown(&data, Some(user.uid), Some(user.gid))?;
    }
    let spec = |name: &str| {
        ChildSpec::new(name, bin.join(name), dir.join(format!("{name}.log")))
            .folder(&data)
            .run_as(user.clone())
            .stop_steps([StopStep {
                signal: Signal::SIGINT,
                grace: Duration::from_secs(20),
            }])
    };
    let here = "/proc/self/cwd";
    let made = Process::spawn(&spec("initdb").args([
        "--pgdata",
        here,
        "--username=postgres",
        "--auth=trust",
        "--no-locale",
        "--encoding=UTF8",
    ]))?;
    if !made.wait().await.success() {
        bail!("initdb failed:\n{}", made.log_tail());
    }
    let port = free_port()?;
    let process = Process::spawn(&spec("postgres").args([
        "-D".to_owned(),
        here.to_owned(),
        format!("-cport={port}"),
        "-clisten_addresses=127.0.0.1".to_owned(),
        "-cunix_socket_directories=".to_owned(),
        "-cmax_connections=200".to_owned(),
    ]))?;
    let url = format!("postgres://postgres@127.0.0.1:{port}");
    let answers = async || crate::database::is_reachable(&format!("{url}/postgres")).await;
    wait_for("Postgres", &process, answers).await?;
    Ok((process, url))
}

async fn start_nats(dir: &Path) -> anyhow::Result<(Process, String)> {
    let program = SearchPaths::from_env().nats()?.program;
    let port = free_port()?;
    let spec = ChildSpec::new("nats-server", program, dir.join("nats-server.log"))
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .args([dir.join("nats")]);
    let process = Process::spawn(&spec)?;
    let answers = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
    wait_for("nats-server", &process, answers).await?;
    Ok((process, format!("nats://127.0.0.1:{port}")))
}

async fn wait_for(name: &str, process: &Process, answers: impl AsyncFn() -> bool) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + START;
    while !answers().await {
        if process.exited().is_some() || tokio::time::Instant::now() > deadline {
            bail!("{name} did not start:\n{}", process.log_tail());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A free address on the loopback interface.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(free_address()?.port())
}

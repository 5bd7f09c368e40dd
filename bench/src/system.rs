//! A system for one measurement: a fresh database, its own streams, a coordinator, and stubs of workers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use ralph_coordinator::bus::Bus;
use ralph_coordinator::embedded::{ChildSpec, Process};
use ralph_coordinator::store::ConnectError;
use ralph_shared::subjects::Subjects;
use sqlx::PgPool;

use crate::database;
use crate::http::Api;
use crate::servers::{self, Servers};

/// Time limit of a wait.
pub const STUCK: Duration = Duration::from_secs(170);
/// Poll interval of the database.
const POLL: Duration = Duration::from_millis(10);
/// Slots of a stub.
pub const SLOTS: u32 = 256;

/// Database and streams of one measurement, and their processes.
pub struct System {
    database: String,
    nats: String,
    prefix: String,
    dir: PathBuf,
    coordinator: Option<Process>,
    /// Address of the coordinator's API.
    api: Option<SocketAddr>,
    /// Address of its separate health listener.
    health: Option<SocketAddr>,
    token: String,
}

/// Options of a stub.
#[derive(Debug, Default, Clone)]
pub struct Stub {
    /// Duration of its sessions. Milliseconds.
    pub work_ms: u64,
    /// File for its events.
    pub log: Option<PathBuf>,
}

/// File for the effects of agents.
const EFFECTS: &str = "effects.log";

/// Path of the scripted agent's program, beside this one.
pub fn scripted_agent() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("ralph-scripted-agent"))
}

impl System {
    /// Recreates database and streams `name`.
    pub async fn fresh(servers: &Servers, name: &str) -> anyhow::Result<Self> {
        let system = Self {
            database: database::create_migrated(servers, name).await?,
            nats: servers.nats_url().to_owned(),
            prefix: prefix(name),
            dir: servers.dir().to_owned(),
            coordinator: None,
            api: None,
            health: None,
            token: uuid::Uuid::new_v4().to_string(),
        };
        system.forget_streams().await?;
        Ok(system)
    }

    /// The existing system at this database's address.
    pub fn existing(database: &str, nats: &str, dir: &Path) -> Self {
        let name = database.rsplit('/').next().unwrap_or_default();
        Self {
            database: database.to_owned(),
            nats: nats.to_owned(),
            prefix: prefix(name),
            dir: dir.to_owned(),
            coordinator: None,
            api: None,
            health: None,
            token: uuid::Uuid::new_v4().to_string(),
        }
    }

    pub fn database(&self) -> &str {
        &self.database
    }

    /// Removes streams of an earlier measurement with these names.
    pub async fn forget_streams(&self) -> anyhow::Result<()> {
        let subjects = self.subjects()?;
        let client = ralph_shared::broker::connect(&self.nats, "ralph-bench").await?;
        let jetstream = async_nats::jetstream::new(client);
        for stream in [
            subjects.tickets_stream(),
            subjects.reports_stream(),
            subjects.transcripts_stream(),
        ] {
            // Usually there are none.
            let _ = jetstream.delete_stream(stream).await;
        }
        Ok(())
    }

    fn subjects(&self) -> anyhow::Result<Subjects> {
        Subjects::new(&self.prefix).map_err(anyhow::Error::msg)
    }

    /// A connection to the broker with this measurement's streams.
    pub async fn bus(&self) -> anyhow::Result<Bus> {
        Bus::connect(&self.nats, self.subjects()?).await
    }

    pub async fn pool(&self, connections: u32) -> sqlx::Result<PgPool> {
        database::pool(&self.database, connections).await
    }

    /// Opens connections like a coordinator's, with prepared statements and index plans.
    pub async fn coordinators_pool(&self, connections: u32) -> Result<PgPool, ConnectError> {
        ralph_coordinator::store::connect(&self.database, connections).await
    }

    /// Starts the coordinator. Returns its process id.
    pub fn start_coordinator(&mut self) -> anyhow::Result<u32> {
        let api = servers::free_address()?;
        let health = servers::free_address()?;
        let token_file = self.dir.join("token");
        std::fs::write(&token_file, &self.token)?;
        let program = std::env::current_exe()?.with_file_name("ralph-coordinator");
        let spec = ChildSpec::new("coordinator", program, self.dir.join("coordinator.log"))
            .args(["serve", "--listen", &api.to_string()])
            .args(["--health-listen", &health.to_string()])
            .args(["--subject-prefix", &self.prefix, "--token-file"])
            .args([token_file])
            .folder(&self.dir)
            .env("RALPH_LOG", "warn")
            .env("DATABASE_URL", &self.database)
            .env("NATS_URL", &self.nats);
        let process = Process::spawn(&spec)?;
        let pid = process.pid();
        self.coordinator = Some(process);
        self.api = Some(api);
        self.health = Some(health);
        Ok(pid)
    }

    /// A `ralph-coordinator` command that calls the coordinator.
    pub fn command(&self, args: &[&str]) -> anyhow::Result<tokio::process::Command> {
        let api = self.api.context("no coordinator was started")?;
        let program = std::env::current_exe()?.with_file_name("ralph-coordinator");
        let mut command = tokio::process::Command::new(program);
        command
            .args(args)
            .current_dir(&self.dir)
            .env("RALPH_URL", format!("http://{api}"))
            .env("RALPH_TOKEN", &self.token);
        Ok(command)
    }

    pub fn api(&self) -> anyhow::Result<Api> {
        Ok(Api {
            address: self.api.context("no coordinator was started")?,
            token: self.token.clone(),
        })
    }

    /// Address of the coordinator's health listener.
    pub fn health(&self) -> anyhow::Result<SocketAddr> {
        self.health.context("no coordinator was started")
    }

    /// Waits until the coordinator's API listens.
    pub async fn until_served(&self) -> anyhow::Result<()> {
        let api = self.api.context("no coordinator was started")?;
        let listens = async || Ok(tokio::net::TcpStream::connect(api).await.is_ok());
        self.until("the coordinator listens", listens).await
    }

    /// Stops the coordinator in order.
    pub async fn stop_coordinator(&mut self) {
        if let Some(process) = self.coordinator.take() {
            process.stop().await;
        }
    }

    /// Starts a stub of a worker named `name`.
    pub fn start_stub(&self, name: &str, stub: &Stub) -> anyhow::Result<Process> {
        let mut spec = ChildSpec::new(
            name,
            std::env::current_exe()?,
            self.dir.join(format!("{name}.log")),
        )
        .args(["stub", "--prefix", &self.prefix, "--name", name])
        .args([
            "--slots",
            &SLOTS.to_string(),
            "--work-ms",
            &stub.work_ms.to_string(),
        ])
        .env("NATS_URL", &self.nats);
        if let Some(log) = &stub.log {
            spec = spec.args(["--log"]).args([log]);
        }
        Ok(Process::spawn(&spec)?)
    }

    /// Starts a real worker named `name` with the scripted agent.
    pub fn start_worker(&self, name: &str, slots: u32) -> anyhow::Result<Process> {
        let program = std::env::current_exe()?.with_file_name("ralph-worker");
        let effects = self.dir.join(format!("{name}-effects"));
        std::fs::create_dir_all(&effects)?;
        let spec = ChildSpec::new(name, program, self.log_of(name))
            .args(["run", "--name", name, "--slots", &slots.to_string(), "--agent"])
            .args([scripted_agent()?])
            .args(["--pass-env", "RALPH_EFFECTS_LOG", "--sandbox-write"])
            .args([&effects])
            .args(["--subject-prefix", &self.prefix, "--data"])
            .args([self.worker_data(name)])
            .folder(&self.dir)
            .env("RALPH_EFFECTS_LOG", effects.join(EFFECTS))
            .env("RALPH_LOG", "info,async_nats=warn")
            .env("NATS_URL", &self.nats);
        Ok(Process::spawn(&spec)?)
    }

    /// Log of the worker of that name.
    pub fn log_of(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Data folder of the worker of that name.
    pub fn worker_data(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}-data"))
    }

    /// Effects that agents of that worker wrote with `@effect`.
    pub fn effects_of(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}-effects")).join(EFFECTS)
    }

    /// Waits until all slots of one stub wait for a ticket, which means that the system is idle.
    pub async fn until_idle(&self, bus: &Bus) -> anyhow::Result<()> {
        self.until_waiting(bus, SLOTS).await
    }

    /// Waits until `slots` slots wait for a ticket.
    pub async fn until_waiting(&self, bus: &Bus, slots: u32) -> anyhow::Result<()> {
        let subjects = self.subjects()?;
        let waiting = async || -> anyhow::Result<usize> {
            let stream = bus.jetstream.get_stream(subjects.tickets_stream()).await?;
            let info = stream.consumer_info(subjects.tickets_consumer("default")).await?;
            Ok(info.num_waiting)
        };
        let slots = usize::try_from(slots)?;
        self.until("all slots wait for tickets", async || {
            Ok(waiting().await.is_ok_and(|n| n >= slots))
        })
        .await
    }

    /// Polls until `holds` returns true.
    pub async fn until(
        &self,
        what: &str,
        holds: impl AsyncFn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + STUCK;
        while !holds().await? {
            if tokio::time::Instant::now() > deadline {
                bail!("waited in vain for `{what}`:\n{}", self.log_tails());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until every feature is done.
    pub async fn until_done(&self) -> anyhow::Result<()> {
        let pool = self.pool(1).await?;
        let done = async || -> anyhow::Result<bool> {
            sqlx::query_scalar("select coalesce(bool_and(state = 'done'), false) from features")
                .fetch_one(&pool)
                .await
                .context("failed to ask whether everything is done")
        };
        self.until("every feature is done", done).await?;
        pool.close().await;
        Ok(())
    }

    fn log_tails(&self) -> String {
        let mut tails = String::new();
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "log") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let from = lines.len().saturating_sub(8);
                tails.push_str(&format!("--- {}\n{}\n", path.display(), lines[from..].join("\n")));
            }
        }
        tails
    }
}

/// Database names may contain characters that subjects may not.
fn prefix(name: &str) -> String {
    name.replace('_', "-")
}

/// Kills a process and waits for its end.
pub async fn kill(process: Process) {
    process.signal(Signal::SIGKILL);
    process.wait().await;
}

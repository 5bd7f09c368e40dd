//! Postgres, NATS, coordinators and workers of one test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_coordinator::bus::Bus;
use ralph_coordinator::domain::graph::{self, Graph, Limits};
use ralph_coordinator::embedded::{DataDir, Nats, Postgres, Role, SearchPaths, Tuning};
use ralph_coordinator::flow::Settings;
use ralph_coordinator::services::{self, Deps, Reserved};
use ralph_coordinator::store;
use ralph_coordinator::store::feature::NewFeature;
use ralph_coordinator::waiting::Waiting;
use ralph_coordinator::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::logging::{self, LogFormat};
use ralph_shared::subjects::Subjects;
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::data_folder;
use super::options::{Fault, FeatureOptions, WorkerOptions};
use super::process::{self, Spawned};
use super::repository::Repository;
use super::template;

/// Time for the servers to end after a test.
const SERVERS_END: Duration = Duration::from_secs(5);

/// The servers of one test, with all processes on them.
#[derive(Debug)]
pub struct World {
    data: DataDir,
    pub postgres: Option<Postgres>,
    pub nats: Option<Nats>,
    pub db: PgPool,
    /// The coordinators' connection to the broker.
    pub bus: Bus,
    pub settings: Settings,
    coordinators: Vec<(CancellationToken, JoinHandle<()>)>,
    waiting: Vec<Arc<Waiting>>,
    dir: TempDir,
    /// Folder of the servers' data, if that isn't `dir`. Dropped last, after all writers.
    _memory: Option<TempDir>,
}

/// A program of this workspace, built beside the running test.
pub fn binary(name: &str) -> PathBuf {
    let program = built().join(name);
    assert!(
        program.exists(),
        "{} is missing: `cargo build --workspace --bins` builds it",
        program.display()
    );
    program
}

/// The folder of the workspace's programs.
pub(super) fn built() -> PathBuf {
    let mut dir = std::env::current_exe().unwrap_or_default();
    dir.pop();
    if dir.ends_with("deps") {
        dir.pop();
    }
    dir
}

impl World {
    /// Starts the servers.
    ///
    /// # Errors
    /// When they are missing (`make setup`) or don't start.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(Settings {
            heartbeat: Duration::from_millis(200),
            lease: Duration::from_millis(3_000),
            grace: Duration::from_millis(300),
            hold_out: 0.0,
            ..Settings::default()
        })
        .await
    }

    /// Starts the servers with leases that never lapse during a test, however busy the machine is.
    ///
    /// # Errors
    /// When they are missing (`make setup`) or don't start.
    pub async fn calm() -> anyhow::Result<Self> {
        Self::start_with(Settings {
            heartbeat: Duration::from_millis(300),
            grace: Duration::from_millis(300),
            ..Settings::default()
        })
        .await
    }

    /// Starts the servers; coordinators will use `settings`.
    ///
    /// # Errors
    /// When they are missing (`make setup`) or don't start.
    pub async fn start_with(settings: Settings) -> anyhow::Result<Self> {
        // Output of coordinators in this process, shown when the test fails.
        logging::init("warn,ralph_coordinator=info", LogFormat::Text);
        let keep = std::env::var_os("RALPH_TEST_KEEP").is_some();
        let mut dir = tempfile::Builder::new().prefix("ralph-test-").tempdir()?;
        dir.disable_cleanup(keep);
        make_traversable(dir.path())?;
        std::fs::create_dir(dir.path().join("effects"))?;
        let memory = if keep { None } else { data_folder::in_memory()? };
        let servers = memory.as_ref().map_or(dir.path(), TempDir::path);
        let data = DataDir::open(&servers.join("data"))?;
        let places = SearchPaths::from_env();
        template::lay(&data, &places).await?;
        let postgres = Postgres::start(&places.postgres()?, &data, Tuning::Tests).await?;
        let nats = Nats::start(&places.nats()?, &data, Tuning::Tests).await?;
        let db = store::connect(&postgres.url(), 8).await?;
        store::migrate(&db).await?;
        let bus = Bus::connect(&nats.url_for(Role::Coordinator), Subjects::default()).await?;
        Ok(Self {
            data,
            postgres: Some(postgres),
            nats: Some(nats),
            db,
            bus,
            settings,
            coordinators: Vec::new(),
            waiting: Vec::new(),
            dir,
            _memory: memory,
        })
    }

    /// A folder for the test's own files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The broker's address for a role.
    pub fn nats_url(&self, role: Role) -> anyhow::Result<String> {
        Ok(self.nats.as_ref().context("NATS is stopped")?.url_for(role))
    }

    pub(super) fn data(&self) -> &DataDir {
        &self.data
    }

    /// Starts a coordinator as a separate process, with its output in `NAME.log`.
    pub fn coordinator_process(&self, name: &str, fault: Option<&Fault>) -> anyhow::Result<Spawned> {
        self.coordinator_at("127.0.0.1:0", name, fault)
    }

    /// Like [`World::coordinator_process`], with its API at this address.
    pub fn coordinator_at(&self, listen: &str, name: &str, fault: Option<&Fault>) -> anyhow::Result<Spawned> {
        let nats = self.nats.as_ref().context("NATS is stopped")?;
        let postgres = self.postgres.as_ref().context("Postgres is stopped")?;
        let ms = |time: Duration| time.as_millis().to_string();
        let mut command = process::bound(&binary("ralph-coordinator"));
        command
            .args(["serve", "--listen", listen])
            .current_dir(self.dir.path())
            .envs(self.configuration())
            .env("DATABASE_URL", postgres.url())
            .env("NATS_URL", nats.url_for(Role::Coordinator))
            .env("RALPH_DB_CONNECTIONS", "10")
            .env("RALPH_HEARTBEAT_MS", ms(self.settings.heartbeat))
            .env("RALPH_LEASE_MS", ms(self.settings.lease))
            .env("RALPH_GRACE_MS", ms(self.settings.grace))
            .envs(fault.into_iter().flat_map(Fault::env));
        Spawned::start(&mut command, &self.dir.path().join(format!("{name}.log")))
    }

    /// Starts a coordinator in this process.
    pub async fn coordinator(&mut self) -> anyhow::Result<()> {
        let nats = self.nats.as_ref().context("NATS is stopped")?;
        let bus = Bus::connect(&nats.url_for(Role::Coordinator), Subjects::default())
            .await?
            .traced(self.settings.tracer.clone());
        let postgres = self.postgres.as_ref().context("Postgres is stopped")?;
        let db = store::connect(&postgres.url(), 8).await?;
        let shutdown = CancellationToken::new();
        self.waiting.push(Arc::clone(&bus.waiting));
        let deps = Deps {
            reserved: Reserved::shared(&db),
            db,
            bus,
            settings: self.settings.clone(),
            pulse: Arc::default(),
        };
        let task = tokio::spawn(services::serve(deps, shutdown.clone()));
        self.coordinators.push((shutdown, task));
        Ok(())
    }

    /// Whether a claim waits at a coordinator of this process.
    pub fn has_waiting_claims(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Asks the coordinators of this process to stop.
    pub fn stop_coordinators(&self) {
        for (shutdown, _) in &self.coordinators {
            shutdown.cancel();
        }
    }

    /// The effects log of this world's agents.
    pub fn effects(&self) -> PathBuf {
        self.dir.path().join("effects").join("effects.log")
    }

    /// The recorded effects, one per line.
    pub fn effects_lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.effects()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Starts a worker with the scripted agent.
    pub fn worker(&self, options: &WorkerOptions) -> anyhow::Result<Spawned> {
        let nats = self.nats.as_ref().context("NATS is stopped")?;
        let scripted = binary("ralph-scripted-agent");
        let agent = match &options.agent {
            Some(agent) => agent.clone(),
            None => format!("{} {}", scripted.display(), options.agent_flags),
        };
        let data = options.data.as_ref().unwrap_or(&options.name);
        let folder = self.dir.path().join(data);
        let program = binary("ralph-worker");
        let mut command = match options.disk_mib {
            Some(size_mib) => process::bound_with_disk(&program, &folder, size_mib)?,
            None => process::bound(&program),
        };
        command
            .args([
                "run",
                "--name",
                &options.name,
                "--slots",
                &options.slots.to_string(),
            ])
            .args(options.pool.split(',').flat_map(|pool| ["--pool", pool]))
            .args(["--agent", &agent])
            .args(["--drain-seconds", &options.drain_seconds.to_string()])
            .args(["--pass-env", "RALPH_EFFECTS_LOG"])
            .arg("--sandbox-write")
            .arg(self.dir.path().join("effects"))
            .arg("--data")
            .arg(&folder)
            .current_dir(self.dir.path())
            .envs(self.configuration())
            .env("NATS_URL", nats.url_for(Role::Worker))
            .env("RALPH_EFFECTS_LOG", self.effects())
            .envs(&options.env);
        Spawned::start(&mut command, &self.dir.path().join(format!("{data}.log")))
    }

    /// The `.ralph.toml` of this world, if any, as RALPH_CONFIG, so that programs trust it.
    fn configuration(&self) -> Option<(&'static str, PathBuf)> {
        let file = self.dir.path().join(".ralph.toml");
        file.exists().then_some(("RALPH_CONFIG", file))
    }

    /// Submits a graph and starts its run.
    pub async fn submit(
        &self,
        name: &str,
        repository: Option<&Repository>,
        graph: &str,
        options: &FeatureOptions,
    ) -> anyhow::Result<(FeatureId, RunId, Vec<TaskId>)> {
        let graph = match &options.plan {
            Some(_) => Graph {
                nodes: Vec::new(),
                edges: 0,
                warnings: Vec::new(),
                source_name: String::new(),
            },
            None => graph::load("tasks.yaml", graph, &Limits::file()).map_err(|e| anyhow::anyhow!("{e}"))?,
        };
        let repo_id = repository.map(|r| r.address().to_owned()).unwrap_or_default();
        let feature = NewFeature {
            repo_address: repository.map(|r| r.address().to_owned()),
            base_ref: repository.map(|_| "main".to_owned()),
            base_commit: repository.map(|r| r.head("main")).transpose()?,
            branch: repository.map(|_| format!("ralph/{name}")),
            max_parallel: options.max_parallel,
            failure_policy: options.failure_policy,
            avoid_conflicts: options.avoid_conflicts,
            dir: options.dir.clone(),
            merge: options.merge,
            plan: options.plan.clone(),
            ..NewFeature::new(name.to_owned(), repo_id)
        };
        let id = feature.id;
        let defaults = TaskDefaults {
            max_retries: options.max_retries,
            verify: options.verify,
            pool: options.pool.clone(),
        };
        let submission = Submission {
            feature,
            graph,
            defaults,
            limits: Vec::new(),
            start: Start::Now(options.run.clone()),
        };
        let (submitted, signals) = submit::submit(&self.db, &submission).await?;
        self.bus.emit(signals).await;
        match submitted {
            Submitted::Accepted {
                run: Some(run), ids, ..
            } => Ok((id, run, ids)),
            other => bail!("not accepted: {other:?}"),
        }
    }
}

impl Drop for World {
    /// Ends the servers, also after a failed test. Nobody reads their data again, so they write no checkpoint. SIGKILL
    /// would leave Postgres's shared memory behind.
    fn drop(&mut self) {
        for (shutdown, _) in &self.coordinators {
            shutdown.cancel();
        }
        let nats = self
            .nats
            .as_ref()
            .and_then(Nats::pid)
            .map(|pid| (pid, Signal::SIGKILL));
        let postgres = self
            .postgres
            .as_ref()
            .and_then(Postgres::pid)
            .map(|pid| (pid, Signal::SIGQUIT));
        let servers: Vec<(Pid, Signal)> = [nats, postgres]
            .into_iter()
            .flatten()
            .map(|(pid, signal)| (Pid::from_raw(pid.cast_signed()), signal))
            .collect();
        for (pid, signal) in &servers {
            let _ = kill(*pid, *signal);
        }
        // A thread of the server's process handle collects its status, so its number is gone soon.
        let deadline = Instant::now() + SERVERS_END;
        while servers.iter().any(|(pid, _)| kill(*pid, None).is_ok()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// If the test runs as root, the database server runs as another user, and must reach its folder.
pub(super) fn make_traversable(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

//! A private nats-server with JetStream: one user per role, a stable free port, and restarts after a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use ralph_shared::subjects::Subjects;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Tuning;
use super::child::{Backoff, ChildSpec, Phase, StopStep, Supervised};
use super::datadir::{DataDir, write_private};
use super::find::NatsServer;
use super::nats_config::{self, Config};
use super::readiness::{ServerError, wait_until_ready};

/// Role of a connection (DESIGN 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// May do everything.
    Coordinator,
    /// May ask, report, and take tickets.
    Worker,
}

impl Role {
    /// Name of its user on the server.
    pub fn user(self) -> &'static str {
        match self {
            Role::Coordinator => "coordinator",
            Role::Worker => "worker",
        }
    }

    fn secret(self) -> &'static str {
        match self {
            Role::Coordinator => "nats-coordinator",
            Role::Worker => "nats-worker",
        }
    }
}

/// A running private nats-server. Dropping it without [`stop`](Self::stop) kills it.
#[derive(Debug)]
pub struct Nats {
    supervised: Supervised,
    port: u16,
    coordinator_password: String,
    worker_password: String,
}

impl Nats {
    /// Starts the server on its previous port, or on another if that is taken, and waits until JetStream
    /// answers.
    pub async fn start(server: &NatsServer, data: &DataDir, tuning: Tuning) -> Result<Self, ServerError> {
        let files = Files::new(data)?;
        let passwords = (
            data.secret(Role::Coordinator.secret())?,
            data.secret(Role::Worker.secret())?,
        );
        let subjects = Subjects::default();
        let configure = |port: Option<u16>| {
            let text = nats_config::render(&Config {
                store: &files.store,
                ports: &files.ports,
                port,
                coordinator_password: &passwords.0,
                worker_password: &passwords.1,
                subjects: &subjects,
                tuning,
            });
            write_private(&files.config, text.as_bytes())
        };
        configure(files.recorded_port())?;

        let spec = ChildSpec::new("nats-server", &server.program, data.log("nats-server"))
            .args(["--config".into(), files.config.clone()])
            .stop_steps([StopStep {
                signal: Signal::SIGINT,
                grace: Duration::from_secs(10),
            }]);
        let supervised = Supervised::start(spec, Backoff::default());
        let ask = || async {
            let port = supervised
                .pid()
                .and_then(|pid| files.port_of(pid))
                .ok_or("it has no port yet")?;
            query_jetstream(port, &passwords.0).await?;
            Ok(port)
        };
        let port_may_be_taken = |problem: &str| {
            // If the write fails, the same problem occurs again, and then the wait fails.
            if problem.contains("address already in use") {
                let _ = configure(None);
            }
        };
        let log = data.log("nats-server");
        let port = wait_until_ready("nats-server", &supervised, log, ask, port_may_be_taken).await?;
        // Clients know this port, so a restart must come back on it.
        configure(Some(port))?;
        write_private(&files.port, port.to_string().as_bytes())?;
        let (coordinator_password, worker_password) = passwords;
        Ok(Self {
            supervised,
            port,
            coordinator_password,
            worker_password,
        })
    }

    /// Address for connections as `role`. Contains the password: not for logs or process arguments.
    ///
    /// async-nats ignores user and password in an address: pass them as options.
    pub fn url_for(&self, role: Role) -> String {
        let password = match role {
            Role::Coordinator => &self.coordinator_password,
            Role::Worker => &self.worker_password,
        };
        format!("nats://{}:{password}@127.0.0.1:{}", role.user(), self.port)
    }

    pub fn pid(&self) -> Option<u32> {
        self.supervised.pid()
    }

    /// Cancel this during a stop to leave the server only a little time.
    pub fn hurry(&self) -> CancellationToken {
        self.supervised.hurry()
    }

    /// Starts and exits, as they happen.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.supervised.phases()
    }

    /// Stops it. Published messages stay in its store.
    pub async fn stop(self) {
        self.supervised.stop().await;
    }

    /// Kills it with SIGKILL, as a crash would, and doesn't start it again.
    pub async fn kill(self) {
        self.supervised.kill().await;
    }

    /// The folder of the JetStream store, which may be wiped while nothing runs (DESIGN 1.1).
    pub fn store(data: &DataDir) -> PathBuf {
        data.path("nats").join("jetstream")
    }
}

/// The files below `DIR/nats`.
struct Files {
    config: PathBuf,
    store: PathBuf,
    ports: PathBuf,
    port: PathBuf,
}

/// The file that nats-server writes once it listens.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl Files {
    fn new(data: &DataDir) -> Result<Self, ServerError> {
        let folder = data.folder("nats")?;
        let ports = data.folder("nats/ports")?;
        // A killed server leaves its file, and its process id may be reused.
        for entry in fs::read_dir(&ports)
            .map_err(ServerError::io("list", &ports))?
            .flatten()
        {
            let _ = fs::remove_file(entry.path());
        }
        Ok(Self {
            config: folder.join("nats.conf"),
            store: Nats::store(data),
            ports,
            port: folder.join("port"),
        })
    }

    fn recorded_port(&self) -> Option<u16> {
        fs::read_to_string(&self.port).ok()?.trim().parse().ok()
    }

    fn port_of(&self, pid: u32) -> Option<u16> {
        // The file's name contains the program's name, which we don't choose.
        let ending = format!("_{pid}.ports");
        let entries = fs::read_dir(&self.ports).ok()?.flatten();
        let path = entries
            .map(|entry| entry.path())
            .find(|path| ends_with(path, &ending))?;
        let ports: Ports = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        ports
            .nats
            .iter()
            .find_map(|address| address.rsplit(':').next()?.parse().ok())
    }
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(ending))
}

async fn query_jetstream(port: u16, password: &str) -> Result<(), String> {
    let options = async_nats::ConnectOptions::with_user_and_password(
        Role::Coordinator.user().to_owned(),
        password.to_owned(),
    );
    let client = options
        .connect(format!("127.0.0.1:{port}"))
        .await
        .map_err(|error| error.to_string())?;
    let jetstream = async_nats::jetstream::new(client);
    jetstream
        .query_account()
        .await
        .map_err(|error| error.to_string())?;
    Ok(())
}

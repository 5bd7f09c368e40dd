//! A private Postgres: created on first use, reached only through a unix socket, started again when it dies.

use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::Signal;
use sqlx::migrate::MigrateDatabase as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::child::{Backoff, Phase, StopStep, Supervised};
use super::datadir::{DataDir, write_private};
use super::find::PostgresServer;
use super::postgres_init::SocketFolder;
use super::readiness::{ServerError, wait_until_ready};
use super::runas::RunAs;
use super::{Tuning, postgres_init, postgres_settings};

/// The database that [`Postgres::url`] names.
const DATABASE: &str = "ralph";
/// Time limit for a connection while the server starts.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A running private Postgres. Dropping it without [`stop`](Self::stop) kills it, which costs a recovery, not data.
#[derive(Debug)]
pub struct Postgres {
    supervised: Supervised,
    sockets: SocketFolder,
    password: String,
    version: [u32; 2],
}

impl Postgres {
    /// Starts the newest of `servers`, or for a folder that already has data the newest of the same major
    /// version, and waits until it answers. Root runs it as `postgres` or `nobody`.
    pub async fn start(
        servers: &[PostgresServer],
        data: &DataDir,
        tuning: Tuning,
    ) -> Result<Self, ServerError> {
        let user = RunAs::for_postgres()?;
        let folder = data.path("postgres");
        let server = choose(servers, &folder)?;
        let sockets = SocketFolder::new(data, user.as_ref())?;
        if !folder.exists() {
            postgres_init::initialise(server, data, &folder, sockets.path(), user.as_ref(), tuning).await?;
        }
        let settings = folder.join("ralph.conf");
        write_private(
            &settings,
            postgres_settings::render(sockets.path(), tuning).as_bytes(),
        )?;
        postgres_init::give(&settings, user.as_ref())?;

        let spec = postgres_init::program(
            "postgres",
            server.bin.join("postgres"),
            data,
            &folder,
            user.as_ref(),
        )
        // An immediate shutdown, so that no backend outlives us. The next start recovers.
        .death_signal(Signal::SIGQUIT)
        .stop_steps([
            // SIGINT is a fast shutdown: it ends the sessions and writes a checkpoint. SIGQUIT is an
            // immediate one: it leaves both to the next start.
            StopStep {
                signal: Signal::SIGINT,
                grace: Duration::from_secs(20),
            },
            StopStep {
                signal: Signal::SIGQUIT,
                grace: Duration::from_secs(5),
            },
        ]);
        let postgres = Self {
            supervised: Supervised::start(spec, Backoff::default()),
            sockets,
            password: data.secret("postgres")?,
            version: server.version,
        };
        postgres.wait_and_create_database(data).await?;
        Ok(postgres)
    }

    /// Address of the database `ralph`. Contains the password: not for logs or process arguments.
    pub fn url(&self) -> String {
        self.url_for_database(DATABASE)
    }

    /// Address of another database of the same server.
    pub fn url_for_database(&self, database: &str) -> String {
        let sockets: String = self
            .sockets
            .path()
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .map(percent_encoded)
            .collect();
        let user = postgres_init::USER;
        format!(
            "postgres://{user}:{}@localhost/{database}?host={sockets}",
            self.password
        )
    }

    pub fn version(&self) -> [u32; 2] {
        self.version
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

    /// Ends its sessions and stops it.
    pub async fn stop(self) {
        self.supervised.stop().await;
    }

    /// Kills it with SIGKILL, as a crash would, and doesn't start it again.
    pub async fn kill(self) {
        self.supervised.kill().await;
    }

    async fn wait_and_create_database(&self, data: &DataDir) -> Result<(), ServerError> {
        let created = |source| ServerError::Database {
            database: DATABASE,
            source,
        };
        let options = PgConnectOptions::from_str(&self.url_for_database("postgres"))
            .map_err(created)?
            .disable_statement_logging();
        let ask = || async {
            match tokio::time::timeout(CONNECT_WITHIN, PgConnection::connect_with(&options)).await {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(_late) => Err(format!("no answer within {} s", CONNECT_WITHIN.as_secs())),
            }
        };
        let log = data.log("postgres");
        let connection = wait_until_ready("Postgres", &self.supervised, log, ask, |_exit| {}).await?;
        connection.close().await.map_err(created)?;
        let url = self.url_for_database(DATABASE);
        if !sqlx::Postgres::database_exists(&url).await.map_err(created)? {
            sqlx::Postgres::create_database(&url).await.map_err(created)?;
        }
        Ok(())
    }
}

/// Postgres reads only folders of its own major version.
fn choose<'a>(servers: &'a [PostgresServer], folder: &Path) -> Result<&'a PostgresServer, ServerError> {
    let marker = folder.join("PG_VERSION");
    let wanted = match fs::read_to_string(&marker) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(ServerError::io("read", marker)(error)),
    };
    let fits = |server: &&PostgresServer| {
        wanted
            .as_ref()
            .is_none_or(|wanted| *wanted == server.version[0].to_string())
    };
    servers.iter().find(fits).ok_or_else(|| ServerError::OtherMajor {
        folder: folder.to_owned(),
        found: wanted.clone().unwrap_or_default(),
        available: match servers {
            [] => "none".to_owned(),
            _ => servers
                .iter()
                .map(|s| s.version[0].to_string())
                .collect::<Vec<_>>()
                .join(", "),
        },
    })
}

fn percent_encoded(byte: &u8) -> String {
    match byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    }
}

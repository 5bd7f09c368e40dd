//! Waits until a server answers, and reports why it doesn't.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{Phase, SpawnError, Supervised};
use super::datadir::DataDirError;
use super::runas::NoPlainUser;

/// Long enough for the recovery of a large log. An empty folder is ready in well under a second.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(15);
/// Exits of a server during the wait, after which the start fails.
const EXITS_ALLOWED: u32 = 5;

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Data(#[from] DataDirError),
    #[error(transparent)]
    User(#[from] NoPlainUser),
    /// A helper program, such as `initdb`, could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("{name} failed ({status}):\n{output}")]
    Helper {
        name: &'static str,
        status: String,
        output: String,
    },
    /// The data needs a server version that isn't installed.
    #[error(
        "{} was made by Postgres {found}, and only {available} is here; install Postgres {found} \
         (or name its programs with RALPH_PG_BIN), or choose another folder with --data",
        folder.display()
    )]
    OtherMajor {
        folder: PathBuf,
        /// Major version that made the data.
        found: String,
        /// Major versions that are installed.
        available: String,
    },
    /// It exited again and again instead of answering.
    #[error("{server} does not start: {problem}")]
    Exits {
        server: &'static str,
        /// How it exited, with the end of its log.
        problem: String,
    },
    /// It runs but doesn't answer.
    #[error("{server} did not answer within {} s, last: {last}; its log: {}", READY_WITHIN.as_secs(), log.display())]
    Silent {
        server: &'static str,
        last: String,
        log: PathBuf,
    },
    #[error("failed to {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to create the database `{database}`")]
    Database {
        database: &'static str,
        #[source]
        source: sqlx::Error,
    },
}

impl ServerError {
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// Calls `ask` until it answers. Calls `exited` after each exit, so that it can fix the cause before the next
/// start.
pub(super) async fn wait_until_ready<T, F>(
    server: &'static str,
    supervised: &Supervised,
    log: PathBuf,
    mut ask: impl FnMut() -> F,
    mut exited: impl FnMut(&str),
) -> Result<T, ServerError>
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + READY_WITHIN;
    let mut phases = supervised.phases();
    loop {
        let last = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        if phases.has_changed().unwrap_or(false)
            && let Phase::BackingOff { exits, problem } = phases.borrow_and_update().clone()
        {
            if exits >= EXITS_ALLOWED {
                return Err(ServerError::Exits { server, problem });
            }
            exited(&problem);
        }
        if Instant::now() >= deadline {
            return Err(ServerError::Silent { server, last, log });
        }
        sleep(POLL).await;
    }
}

//! Waiting until a server answers, and why it may not.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{Phase, SpawnError, Supervised};
use super::datadir::DataDirError;
use super::runas::NoPlainUser;

/// Enough for a crash recovery of a large log; an empty folder is ready in well under a second.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(15);
/// A server that ended this often while it was waited for will not come.
const EXITS_ALLOWED: u32 = 5;

/// Why a private server can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its folder.
    #[error(transparent)]
    Data(#[from] DataDirError),
    #[error(transparent)]
    User(#[from] NoPlainUser),
    /// A helper program, such as `initdb`, could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A helper program failed.
    #[error("{name} failed ({status}):\n{output}")]
    Helper {
        /// The program.
        name: &'static str,
        /// How it ended.
        status: String,
        /// What it wrote last.
        output: String,
    },
    /// The data belongs to a server that isn't here.
    #[error(
        "{} was made by Postgres {found}, and only {available} is here; install Postgres {found} \
         (or name its programs with RALPH_PG_BIN), or choose another folder with --data",
        folder.display()
    )]
    OtherMajor {
        /// The data folder of the server.
        folder: PathBuf,
        /// The major version that made it.
        found: String,
        /// The versions that could be started.
        available: String,
    },
    /// It ended again and again instead of answering.
    #[error("{server} does not start: {problem}")]
    Exits {
        server: &'static str,
        /// How it ended, with the end of its log.
        problem: String,
    },
    /// It runs but doesn't answer.
    #[error("{server} did not answer within {} s, last: {last}; its log: {}", READY_WITHIN.as_secs(), log.display())]
    Silent {
        server: &'static str,
        /// The last refusal.
        last: String,
        log: PathBuf,
    },
    /// A file or folder.
    #[error("failed to {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The database could not be made.
    #[error("failed to create the database `{database}`")]
    Database {
        /// Its name.
        database: &'static str,
        /// Why not.
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

/// Asks until there is an answer. `exited` hears of every exit meanwhile and may mend its cause before the next start.
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

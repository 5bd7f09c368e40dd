//! The connection pool, the migrations, and retries of transactions.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection, PgPool};

use super::server::{ConnectError, Server};

static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../migrations");

/// Every query is by key, so planning it again would cost more than running it. A cached plan must suit
/// tables of any size: it uses indexes and never scans a table. Plans made while a table was nearly empty are
/// renewed once it has grown ([`super::plans`]). For a list of ids, a lateral subquery with a limit enforces
/// an index plan from the start.
const SESSION: &str = "set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    set enable_hashjoin = off;
    set enable_mergejoin = off;
    set random_page_cost = 1.1;
    set jit = off";

/// A coordinator that is halted or cut off within a transaction keeps its locks and blocks all others. The
/// server ends its connection after this time: half of the default lease, and far longer than any step
/// pauses.
const IDLE_LIMITS: &str = "set idle_in_transaction_session_timeout = '10s';
    set tcp_keepalives_idle = 5;
    set tcp_keepalives_interval = 5;
    set tcp_keepalives_count = 2;
    set tcp_user_timeout = 15000";

/// Longest wait for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Retries after a deadlock or a serialization failure.
const MAX_REPEATS: u32 = 5;

/// Opens a pool of at most `connections`.
///
/// # Errors
/// When the address is invalid, or the server refuses the login.
pub async fn connect(url: &str, connections: u32) -> Result<PgPool, ConnectError> {
    Ok(connect_with(&Server::find(url).await?, connections))
}

/// Opens such a pool for a resolved server; connections open in the background.
pub fn connect_with(server: &Server, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(Duration::from_secs(60))
        .test_before_acquire(false)
        .after_connect(|conn, _| Box::pin(set_up(conn)))
        .connect_lazy_with(connect_options(server))
}

/// Opens a pool with a fixed number of connections, which open in the background.
pub fn connect_lazy(server: &Server, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_connect(|conn, _| Box::pin(set_up(conn)))
        .connect_lazy_with(connect_options(server))
}

fn connect_options(server: &Server) -> PgConnectOptions {
    let options = server.options.clone();
    options
        .application_name("ralph-coordinator")
        .log_slow_statements(tracing::log::LevelFilter::Warn, Duration::from_secs(2))
}

async fn set_up(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(SESSION).execute(&mut *conn).await?;
    sqlx::raw_sql(IDLE_LIMITS).execute(conn).await.map(drop)
}

pub async fn ping(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::raw_sql("select 1").execute(pool).await.map(drop)
}

/// The version of the server at `url`, as the server reports it.
///
/// # Errors
/// When the address is invalid, or the server refuses the login.
pub async fn server_version(url: &str) -> Result<String, ConnectError> {
    let server = Server::find(url).await?;
    let version = async {
        let mut conn = PgConnection::connect_with(&server.options).await?;
        sqlx::query_scalar("show server_version")
            .fetch_one(&mut conn)
            .await
    };
    version.await.map_err(|error| ConnectError::of(&server.at, error))
}

/// Migrates the schema to this release. Several coordinators may call it at once.
///
/// # Errors
/// When a migration fails, or a later release migrated the database.
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    MIGRATOR.run(pool).await
}

/// Why a database cannot be used in its present state.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database has migrations that this release does not know.
    #[error(
        "the database was made by another release, a later one or a build before 0.1.0: its schema has step {found}, but this release knows steps up to {known}; \
         use that release, or another database (DATABASE_URL) or data folder (--data)"
    )]
    Later {
        /// The last unknown step.
        found: i64,
        /// The last step of this release.
        known: i64,
    },
    #[error("failed to read the schema's version")]
    Database(#[from] sqlx::Error),
}

/// Number of pending migrations.
///
/// # Errors
/// When the database does not answer, or a later release migrated it.
pub async fn pending_migrations(pool: &PgPool) -> Result<usize, SchemaError> {
    let known = sqlx::query_scalar::<_, bool>("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(pool)
        .await?;
    let applied: Vec<i64> = if known {
        sqlx::query_scalar("select version from _sqlx_migrations where success order by version")
            .fetch_all(pool)
            .await?
    } else {
        Vec::new()
    };
    let ours: Vec<i64> = MIGRATOR.iter().map(|step| step.version).collect();
    if let Some(found) = applied.iter().rfind(|version| !ours.contains(*version)) {
        return Err(SchemaError::Later {
            found: *found,
            known: ours.last().copied().unwrap_or(0),
        });
    }
    Ok(ours.len() - applied.len())
}

/// Repeats `step` after a deadlock or a serialization failure.
///
/// # Errors
/// Any other error, and these after five repetitions.
pub async fn retry_serialization<T, F>(mut step: impl FnMut() -> F) -> Result<T, sqlx::Error>
where
    F: Future<Output = Result<T, sqlx::Error>>,
{
    let mut repeats = 0;
    loop {
        match step().await {
            Err(error) if repeats < MAX_REPEATS && is_retryable(&error) => {
                repeats += 1;
                tracing::debug!(%error, repeats, "transaction repeated");
                tokio::time::sleep(Duration::from_millis(rand::random_range(1..20))).await;
            }
            other => return other,
        }
    }
}

fn is_retryable(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code());
    matches!(code.as_deref(), Some("40001" | "40P01"))
}

//! Databases for measurements: a fresh one for each, and its Postgres counters.

use std::str::FromStr as _;
use std::time::Duration;

use anyhow::Context as _;
use ralph_coordinator::store;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};

use crate::servers::Servers;

/// Whether a server accepts connections.
pub async fn is_reachable(url: &str) -> bool {
    PgConnection::connect(url).await.is_ok()
}

/// Opens a connection that logs no statements.
pub async fn connection(url: &str) -> sqlx::Result<PgConnection> {
    PgConnectOptions::from_str(url)?
        .disable_statement_logging()
        .connect()
        .await
}

/// Opens a pool for a workload.
pub async fn pool(url: &str, connections: u32) -> sqlx::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(connections)
        .acquire_timeout(Duration::from_secs(30))
        .connect_with(PgConnectOptions::from_str(url)?.disable_statement_logging())
        .await
}

/// Recreates database `name` without a schema, after a checkpoint, so that no run pays for the one before.
pub async fn create(servers: &Servers, name: &str) -> anyhow::Result<String> {
    let mut admin = connection(&servers.database_url("postgres")).await?;
    for statement in [
        format!("drop database if exists {name} with (force)"),
        format!("create database {name}"),
        "checkpoint".to_owned(),
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut admin)
            .await
            .with_context(|| format!("failed to make the database {name} anew"))?;
    }
    Ok(servers.database_url(name))
}

/// Recreates database `name` with Ralph's schema.
pub async fn create_migrated(servers: &Servers, name: &str) -> anyhow::Result<String> {
    let url = create(servers, name).await?;
    let pool = pool(&url, 1).await?;
    store::migrate(&pool).await?;
    pool.close().await;
    Ok(url)
}

#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// Written row versions: inserts and updates of this database's tables.
    pub row_versions: i64,
    /// Position in the write-ahead log. Bytes.
    pub wal_bytes: i64,
}

/// Reads the counters. A session publishes its counters at its end, so this waits until all other
/// connections are closed.
pub async fn counted(url: &str) -> sqlx::Result<Counted> {
    let mut conn = connection(url).await?;
    // Statistics show the end of a session with a delay.
    while others(&mut conn).await? > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (row_versions, wal_bytes) = sqlx::query_as(
        "select coalesce(sum(n_tup_ins + n_tup_upd), 0)::bigint, (pg_current_wal_lsn() - '0/0')::bigint
         from pg_stat_user_tables",
    )
    .fetch_one(&mut conn)
    .await?;
    Ok(Counted {
        row_versions,
        wal_bytes,
    })
}

/// The process id of the server itself.
pub async fn postmaster(url: &str) -> anyhow::Result<u32> {
    let mut conn = connection(url).await?;
    let pid: String = sqlx::query_scalar("select split_part(pg_read_file('postmaster.pid'), e'\n', 1)")
        .fetch_one(&mut conn)
        .await?;
    Ok(pid.parse()?)
}

async fn others(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
    )
    .fetch_one(conn)
    .await
}

//! An idle system: resources of its processes, and their statements to Postgres.

use std::time::Duration;

use crate::database;
use crate::figures::Figures;
use crate::process::{cpu_seconds, resident_bytes};
use crate::servers::Servers;
use crate::system::System;

/// Pause after a start.
const SETTLED: Duration = Duration::from_secs(3);
/// Duration of the observation.
const WATCHED: Duration = Duration::from_secs(20);
const MIB: f64 = 1024.0 * 1024.0;

/// Observes an idle coordinator and an idle worker.
pub async fn idle(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "idle").await?;
    let coordinator = system.start_coordinator()?;
    let worker = system.start_worker("idle", 4)?;
    let bus = system.bus().await?;
    system.until_waiting(&bus, 4).await?;
    // By then the work after a start is over, above all the warm-up of connections.
    tokio::time::sleep(SETTLED).await;
    let logged = LoggedStatements::begin(servers).await?;
    let pids = [("coordinator", coordinator, 60.0), ("worker", worker.pid(), 30.0)];
    let mut before = Vec::new();
    for (_, pid, _) in pids {
        before.push(cpu_seconds(pid)?);
    }
    tokio::time::sleep(WATCHED).await;
    for ((name, pid, most_mib), before) in pids.into_iter().zip(before) {
        let memory = format!("idle {name}, resident");
        figures.at_most(&memory, "MiB", resident_bytes(pid)? as f64 / MIB, most_mib);
        let cpu = format!("idle {name}, processor");
        let share = (cpu_seconds(pid)? - before) / WATCHED.as_secs_f64() * 100.0;
        figures.at_most(&cpu, "%", share, 1.0);
    }
    if let Some(statements) = logged.end(servers).await? {
        let name = "idle, statements to Postgres";
        figures.at_most(name, "1/s", statements as f64 / WATCHED.as_secs_f64(), 20.0);
    }
    worker.stop().await;
    system.stop_coordinator().await;
    Ok(())
}

/// Counts statements in the log of a private Postgres; the log of a given server is not accessible.
struct LoggedStatements {
    before: usize,
}

impl LoggedStatements {
    async fn begin(servers: &Servers) -> anyhow::Result<Self> {
        let before = count(servers);
        if before.is_some() {
            log_statements(servers, "all").await?;
        }
        Ok(Self {
            before: before.unwrap_or(0),
        })
    }

    async fn end(self, servers: &Servers) -> anyhow::Result<Option<usize>> {
        let Some(after) = count(servers) else {
            return Ok(None);
        };
        log_statements(servers, "none").await?;
        Ok(Some(after.saturating_sub(self.before)))
    }
}

async fn log_statements(servers: &Servers, which: &str) -> anyhow::Result<()> {
    let mut admin = database::connection(&servers.database_url("postgres")).await?;
    for statement in [
        format!("alter system set log_statement = '{which}'"),
        "select pg_reload_conf()".to_owned(),
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut admin)
            .await?;
    }
    Ok(())
}

fn count(servers: &Servers) -> Option<usize> {
    let log = servers.postgres_log()?;
    let is_statement = |line: &&str| line.contains("LOG:  execute ") || line.contains("LOG:  statement: ");
    Some(log.lines().filter(is_statement).count())
}

//! W1: one worker drains independent tasks; also the cost of a dispatch for Postgres.

use super::limits::CLAIM_AND_COMPLETE;
use crate::database;
use crate::figures::{Figures, Target};
use crate::load;
use crate::process::{cpu_seconds, cpu_seconds_with_children};
use crate::servers::Servers;
use crate::stub::now;
use crate::system::{Stub, System, kill};

const RATE: &str = "W1 drain independent tasks";
const ROWS: &str = "row versions a task on the dispatch path";
const WAL: &str = "WAL a task on the dispatch path";

/// Drains `n` tasks. The clock runs from the first claim until every task is done in the database.
pub async fn drain(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "w1").await?;
    let db = system.pool(1).await?;
    load::submit(&db, &system.bus().await?, "w1", &load::independent(n)).await?;
    sqlx::raw_sql("vacuum analyze").execute(&db).await?;
    sqlx::raw_sql("checkpoint").execute(&db).await?;
    db.close().await;
    let before = database::counted(system.database()).await?;
    let postmaster = database::postmaster(system.database()).await?;
    let postgres_before = cpu_seconds_with_children(postmaster)?;
    let coordinator = system.start_coordinator()?;
    let stub = system.start_stub("w1", &Stub::default())?;
    system.until_done().await?;
    let done = now();
    let cpu = [
        ("coordinator", cpu_seconds(coordinator)?),
        ("stub", cpu_seconds(stub.pid())?),
        (
            "Postgres",
            cpu_seconds_with_children(postmaster)? - postgres_before,
        ),
    ];
    // The stub's last reports are settled, so it can be killed.
    kill(stub).await;
    system.stop_coordinator().await;
    let after = database::counted(system.database()).await?;
    let mut conn = database::connection(system.database()).await?;
    let first: f64 = sqlx::query_scalar("select extract(epoch from min(claimed_at))::float8 from dispatches")
        .fetch_one(&mut conn)
        .await?;
    let tasks = n as f64;
    figures.add(RATE, "tasks/s", tasks / (done - first));
    figures.ratio(RATE, CLAIM_AND_COMPLETE, Target::AtLeast(1.0));
    for (process, seconds) in cpu {
        figures.add(
            &format!("W1 processor time a task, {process}"),
            "µs",
            seconds / tasks * 1e6,
        );
    }
    figures.add(
        ROWS,
        "",
        (after.row_versions - before.row_versions) as f64 / tasks,
    );
    figures.target(ROWS, Target::AtMost(6.0));
    let wal_bytes = (after.wal_bytes - before.wal_bytes) as f64;
    figures.at_most(WAL, "bytes", wal_bytes / tasks, 3.0 * 1024.0);
    Ok(())
}

//! W4: kills a worker at a third of the work; it restarts at once, or never.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::ensure;

use crate::database;
use crate::figures::{Figures, Target};
use crate::load;
use crate::servers::Servers;
use crate::stub::{Event, Mark, now, read_log};
use crate::system::{Stub, System, kill};

/// Duration of a session. Milliseconds.
const WORK_MS: u64 = 5;

/// The worker restarts at once with the same name: its tasks run again without waiting for their leases to
/// lapse.
///
/// # Errors
/// When a server refuses, or a task was accepted twice.
pub async fn restarted(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let name = "W4 killed worker restarted: last of its tasks runs again";
    crash(servers, n, true, name, figures).await?;
    figures.target(name, Target::AtMost(2.0));
    Ok(())
}

/// The worker never returns: another one gets its tasks when their leases lapse.
///
/// # Errors
/// When a server refuses, or a task was accepted twice.
pub async fn vanished(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let name = "W4 killed worker vanished: last of its tasks runs again";
    crash(servers, n, false, name, figures).await?;
    figures.target(name, Target::AtMost(25.0));
    Ok(())
}

async fn crash(
    servers: &Servers,
    n: usize,
    restart: bool,
    name: &str,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "w4").await?;
    let db = system.pool(1).await?;
    load::submit(&db, &system.bus().await?, "w4", &load::independent(n)).await?;
    db.close().await;
    system.start_coordinator()?;
    let logs: [PathBuf; 2] = [1, 2].map(|start| servers.dir().join(format!("w4-{start}.events")));
    for log in &logs {
        let _ = std::fs::remove_file(log);
    }
    let stub = |log: &PathBuf| Stub {
        work_ms: WORK_MS,
        log: Some(log.clone()),
    };
    let first = system.start_stub("w4", &stub(&logs[0]))?;
    let a_third = async || Ok(ended(&read_log(&logs[0])).len() >= n / 3);
    system.until("a third of the tasks is done", a_third).await?;
    let killed = now();
    kill(first).await;
    let second = system.start_stub(if restart { "w4" } else { "w4-other" }, &stub(&logs[1]))?;
    system.until_done().await?;
    kill(second).await;
    system.stop_coordinator().await;

    let mut conn = database::connection(system.database()).await?;
    let twice: i64 = sqlx::query_scalar(
        "select count(*)
         from (
           select from dispatches where state = 'settled' and outcome = 'done' group by task_id having count(*) > 1
         ) twice",
    )
    .fetch_one(&mut conn)
    .await?;
    ensure!(twice == 0, "{twice} tasks were accepted twice");
    let before = read_log(&logs[0]);
    let finished = ended(&before);
    let mut again = BTreeMap::new();
    for event in read_log(&logs[1]).iter().filter(|e| e.mark == Mark::Started) {
        again.entry(event.task).or_insert(event.at);
    }
    let last = before
        .iter()
        .filter(|event| event.mark == Mark::Started && !finished.contains(&event.task))
        .filter_map(|event| again.get(&event.task))
        .fold(0.0_f64, |last, at| last.max(at - killed));
    figures.add(name, "s", last);
    Ok(())
}

fn ended(events: &[Event]) -> BTreeSet<u64> {
    let ends = events.iter().filter(|event| event.mark == Mark::Ended);
    ends.map(|event| event.task).collect()
}

//! Attempts that finish together on several workers: the overhead of passing the turn from worker to worker,
//! besides the integrations themselves.

use anyhow::ensure;

use super::workspace::Origin;
use crate::figures::{Figures, Target};
use crate::load;
use crate::servers::Servers;
use crate::system::System;

/// Attempts that finish together.
const TOGETHER: usize = 32;
/// Workers, and slots of each.
const WORKERS: usize = 8;
const SLOTS: u32 = 4;

/// Measures the landings.
///
/// # Errors
/// When a server refuses, or an attempt doesn't land.
pub async fn turns(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ralph-bench-turns-").tempdir()?;
    let origin = Origin::with_files(&dir.path().join("small"), 20)?;
    let gate = dir.path().join("gate");
    let mut system = System::fresh(servers, "turns").await?;
    system.start_coordinator()?;
    let names: Vec<String> = (0..WORKERS).map(|number| format!("turns-{number}")).collect();
    let workers = names
        .iter()
        .map(|name| system.start_worker(name, SLOTS))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    for name in &names {
        let _ = std::fs::remove_file(system.effects_of(name));
    }
    let wait = format!("@effect began\n@wait-for {}\n@done", gate.display());
    let scripts = (0..TOGETHER).map(|number| format!("@write {number}.txt {number}\n{wait}"));
    let scripts: Vec<String> = scripts.collect();
    let graph = load::scripted(scripts.iter().map(String::as_str));
    let address = origin.path.display().to_string();
    load::submit_on(&db, &bus, "turns", &graph, Some((&address, &origin.base))).await?;
    let all_began = async || {
        let lines = names.iter().map(|name| {
            let noted = std::fs::read_to_string(system.effects_of(name)).unwrap_or_default();
            noted.lines().count()
        });
        Ok(lines.sum::<usize>() == TOGETHER)
    };
    system.until("all sessions work", all_began).await?;
    std::fs::write(&gate, "")?;
    system.until_done().await?;
    // Time from the first claim of a turn to the last report, and the sum of the integrations' own times.
    let (landed, whole_ms, own_ms): (i64, f64, f64) = sqlx::query_as(
        "select count(*), extract(epoch from max(settled_at) - min(claimed_at))::float8 * 1000,
                sum(duration_ms)::float8
         from dispatches
         where kind = 'integrate' and outcome = 'merged'",
    )
    .fetch_one(&db)
    .await?;
    for worker in workers {
        worker.stop().await;
    }
    db.close().await;
    system.stop_coordinator().await;
    ensure!(
        usize::try_from(landed)? == TOGETHER,
        "{landed} of {TOGETHER} landed"
    );
    let (whole, own) = (
        "32 attempts that finish together on 8 workers, until all landed",
        "their integrations by themselves",
    );
    figures.add(own, "ms", own_ms);
    figures.add(whole, "ms", whole_ms);
    figures.ratio(whole, own, Target::AtMost(1.2));
    Ok(())
}

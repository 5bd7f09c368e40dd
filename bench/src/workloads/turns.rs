//! Attempts that finish together on several workers: the overhead of passing the turn from worker to worker,
//! besides the integrations themselves.

use anyhow::ensure;

use super::workspace::Origin;
use crate::figures::{Figures, Target};
use crate::load;
use crate::servers::Servers;
use crate::system::System;

const WORKERS: usize = 8;

/// Measures 32 attempts.
///
/// # Errors
/// When a server refuses, or an attempt doesn't land.
pub async fn turns(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let took = land_together(servers, "turns", 4).await?;
    let (whole, own) = (
        "32 attempts that finish together on 8 workers, until all landed",
        "their integrations by themselves",
    );
    figures.add(own, "ms", took.own_ms);
    figures.add(whole, "ms", took.whole_ms);
    figures.ratio(whole, own, Target::AtMost(1.2));
    Ok(())
}

/// Measures 200 attempts without a gate.
///
/// # Errors
/// When a server refuses, or an attempt doesn't land.
pub(super) async fn without_gate(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let took = land_together(servers, "landing200", 25).await?;
    let name = "200 landings without a gate, each";
    figures.at_most(name, "ms", took.whole_ms / f64::from(took.landed), 60.0);
    Ok(())
}

/// From the first claim of a landing to the end of the last report, and the sum of what the integrations took by themselves.
struct Took {
    landed: i32,
    whole_ms: f64,
    own_ms: f64,
}

/// As many attempts as there are slots on all workers, which finish at the same moment.
async fn land_together(servers: &Servers, name: &str, slots: u32) -> anyhow::Result<Took> {
    let count = WORKERS * usize::try_from(slots)?;
    let dir = tempfile::Builder::new().prefix("ralph-bench-turns-").tempdir()?;
    let origin = Origin::with_files(&dir.path().join("small"), 20)?;
    let gate = dir.path().join("gate");
    let mut system = System::fresh(servers, name).await?;
    system.start_coordinator()?;
    let names: Vec<String> = (0..WORKERS).map(|number| format!("{name}-{number}")).collect();
    let workers = names
        .iter()
        .map(|name| system.start_worker(name, slots))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    for name in &names {
        let _ = std::fs::remove_file(system.effects_of(name));
    }
    let wait = format!("@effect began\n@wait-for {}\n@done", gate.display());
    let scripts = (0..count).map(|number| format!("@write {number}.txt {number}\n{wait}"));
    let scripts: Vec<String> = scripts.collect();
    let graph = load::scripted(scripts.iter().map(String::as_str));
    let address = origin.path.display().to_string();
    load::submit_on(&db, &bus, name, &graph, Some((&address, &origin.base))).await?;
    let all_began = async || {
        let lines = names.iter().map(|name| {
            let noted = std::fs::read_to_string(system.effects_of(name)).unwrap_or_default();
            noted.lines().count()
        });
        Ok(lines.sum::<usize>() == count)
    };
    system.until("all sessions work", all_began).await?;
    std::fs::write(&gate, "")?;
    system.until_done().await?;
    let (landed, whole_ms, own_ms): (i32, f64, f64) = sqlx::query_as(
        "select count(*)::int4, extract(epoch from max(settled_at) - min(claimed_at))::float8 * 1000,
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
    ensure!(usize::try_from(landed)? == count, "{landed} of {count} landed");
    Ok(Took {
        landed,
        whole_ms,
        own_ms,
    })
}

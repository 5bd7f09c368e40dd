//! The claim's selection of the next task, among few and among very many tasks.

use std::time::Instant;

use ralph_coordinator::domain::scheduling::availability::NO_AGENT;
use ralph_coordinator::domain::scheduling::capability::Capability;
use ralph_coordinator::store::queue::{features, ready};
use sqlx::PgPool;

use crate::figures::{Figures, Target, median};
use crate::load;
use crate::servers::Servers;
use crate::system::System;

/// Number of features; half of their tasks are ready and half blocked.
const FEATURES: usize = 10;
const FEW: usize = 1_000;
const SAMPLES: usize = 300;

/// Measures with 1,000 tasks and with `many`, with alternating samples.
pub async fn next(servers: &Servers, many: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let (few, of_few) = filled(servers, "next_few", FEW).await?;
    let (lots, of_lots) = filled(servers, "next_many", many).await?;
    let mut times = [Vec::new(), Vec::new()];
    for sample in 0..SAMPLES + 20 {
        for (db, times) in [&of_few, &of_lots].into_iter().zip(&mut times) {
            let took = selection(db).await?;
            // The first ones fill caches.
            if sample >= 20 {
                times.push(took);
            }
        }
    }
    of_few.close().await;
    of_lots.close().await;
    drop((few, lots));
    let names = [FEW, many].map(|n| format!("what is next among {n} tasks"));
    for (name, times) in names.iter().zip(&times) {
        figures.add(name, "µs", median(times));
    }
    figures.ratio(&names[1], &names[0], Target::AtMost(1.5));
    Ok(())
}

async fn filled(servers: &Servers, name: &str, tasks: usize) -> anyhow::Result<(System, PgPool)> {
    let system = System::fresh(servers, name).await?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    let text = load::pairs(tasks / FEATURES / 2);
    for feature in 0..FEATURES {
        load::submit(&db, &bus, &format!("f{feature}"), &text).await?;
    }
    sqlx::raw_sql("vacuum analyze").execute(&db).await?;
    sqlx::raw_sql("checkpoint").execute(&db).await?;
    db.close().await;
    let db = system.coordinators_pool(1).await?;
    Ok((system, db))
}

/// Runs the claim's two queries and rolls them back; returns the time in microseconds.
async fn selection(db: &PgPool) -> anyhow::Result<f64> {
    let offer = Capability {
        startable: Vec::new(),
        shut: Vec::new(),
        pools: vec!["default".to_owned()],
        agents: vec![NO_AGENT.to_owned(), "default".to_owned()],
    };
    let mut tx = db.begin().await?;
    let began = Instant::now();
    let features = features::claimable(&mut tx, &offer).await?;
    let shares: Vec<_> = features.iter().take(1).map(|f| (f.feature, 1)).collect();
    let taken = ready::take(&mut tx, &offer, &shares, ready::ReadyFilter::Work).await?;
    let took = began.elapsed().as_secs_f64() * 1e6;
    anyhow::ensure!(taken.len() == 1, "nothing was ready");
    tx.rollback().await?;
    Ok(took)
}

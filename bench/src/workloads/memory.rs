//! The full context of a claim, for tasks with 50 attempts, with a memory of 1,000,000 journal entries,
//! 100,000 learnings and 20,000 knowledge entries of one repository; compared with 1 % of that memory.

use std::time::Instant;

use ralph_coordinator::flow::claim::opened::Opened;
use ralph_coordinator::flow::{Settings, assignment::context};
use ralph_shared::ids::{DispatchId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgPool;
use uuid::Uuid;

use crate::figures::{Figures, Target, percentile};
use crate::servers::Servers;

use super::memory_fill::{ENTRIES, filled};

/// The small memory is smaller by this factor.
const FEWER: usize = 100;
/// Claimed tasks, and past attempts of each.
pub(super) const TASKS: usize = 16;
pub(super) const ATTEMPTS: usize = 50;
const SAMPLES: usize = 400;
const WARM: usize = 40;

pub async fn memory(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let (few, of_few) = filled(servers, "memory_few", FEWER).await?;
    let (lots, of_lots) = filled(servers, "memory_lots", 1).await?;
    let settings = Settings {
        hold_out: 0.0,
        ..Settings::default()
    };
    let sides = [&of_few, &of_lots];
    // A coordinator at work has several connections; a pool opens them on demand.
    for side in sides {
        tokio::try_join!(side.db.acquire(), side.db.acquire())?;
    }
    let mut alone = [Vec::new(), Vec::new()];
    for sample in 0..SAMPLES + WARM {
        for (side, times) in sides.iter().zip(&mut alone) {
            let one = [side.claim(sample)];
            let took = side.built(&settings, &one).await?;
            if sample >= WARM {
                times.push(took);
            }
        }
    }
    let mut together = [Vec::new(), Vec::new()];
    for sample in 0..SAMPLES / TASKS + 5 {
        for (side, times) in sides.iter().zip(&mut together) {
            let all: Vec<Opened> = (0..TASKS).map(|task| side.claim(task)).collect();
            let took = side.built(&settings, &all).await? / TASKS as f64;
            if sample >= 5 {
                times.push(took);
            }
        }
    }
    let entries = ENTRIES;
    let of = |n: usize| format!("a claim's context among {n} entries");
    for (n, times) in [entries / FEWER, entries].into_iter().zip(&alone) {
        figures.add(&format!("{}, p50", of(n)), "ms", percentile(times, 50));
        figures.add(&format!("{}, p99", of(n)), "ms", percentile(times, 99));
    }
    let [small, large] = [entries / FEWER, entries].map(|n| format!("{}, p50", of(n)));
    figures.ratio(&large, &small, Target::AtMost(2.0));
    figures.target(&format!("{}, p99", of(entries)), Target::AtMost(50.0));
    // A second figure for the same value, since a figure has one target.
    let name = format!("{}, the middle", of(entries));
    figures.at_most(&name, "ms", percentile(&alone[1], 50), 15.0);
    let name = format!("the same for {TASKS} claims that come together, each");
    figures.add(&name, "ms", percentile(&together[1], 50));
    figures.ratio(&name, &large, Target::AtMost(1.0));
    for side in sides {
        side.db.close().await;
    }
    drop((few, lots));
    Ok(())
}

pub(super) struct FilledDatabase {
    pub(super) db: PgPool,
    pub(super) run: RunId,
    pub(super) tasks: Vec<TaskId>,
}

impl FilledDatabase {
    /// The next attempt at one of the tasks, as opened by a claim.
    fn claim(&self, sample: usize) -> Opened {
        Opened {
            dispatch: DispatchId(Uuid::now_v7()),
            task: self.tasks[sample % self.tasks.len()],
            kind: SessionKind::Work,
            attempt: i32::try_from(ATTEMPTS).unwrap_or(i32::MAX) + 1,
            run: self.run,
            model: None,
            agent: None,
            prompts: Some(Uuid::now_v7()),
            share: Default::default(),
        }
    }

    /// Builds the contexts; returns the time in milliseconds.
    async fn built(&self, settings: &Settings, claims: &[Opened]) -> anyhow::Result<f64> {
        let began = Instant::now();
        let (assignments, _) = context::build(&self.db, settings, claims).await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        anyhow::ensure!(assignments.len() == claims.len(), "a claim got no context");
        Ok(took)
    }
}

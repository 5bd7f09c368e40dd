//! Every transition of tasks and features at random, against a real database: claims, reports of every kind, losses, late and
//! double reports, and what people do. After every step the rows agree with what a recount gives.
#![allow(clippy::unwrap_used, missing_docs)]

mod deaths;
mod doors;
mod invariants;
mod leases;
mod operations;
mod poison;
mod pool;
mod random;
mod retries;
mod scene;
mod slots;
mod stopping;
mod tickets;

use ralph_tests::harness::World;

/// Steps of one history; with the seeds below about a thousand transitions.
const STEPS: usize = 120;

#[tokio::test(flavor = "multi_thread")]
async fn no_history_leads_to_an_illegal_state() {
    let world = World::start().await.unwrap();
    for seed in 1..=12 {
        let mut history = random::History::begin(&world, seed).await;
        for step in 0..STEPS {
            let did = history.step().await;
            if let Err(broken) = invariants::check(&world.db).await {
                panic!(
                    "seed {seed}, step {step}, after {did}: {broken}\n{}",
                    world.tell().await
                );
            }
        }
        history.finish().await;
        if let Err(broken) = invariants::check(&world.db).await {
            panic!("seed {seed}, at the end: {broken}\n{}", world.tell().await);
        }
    }
    world.stop().await;
}

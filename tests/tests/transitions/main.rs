//! Random transitions of tasks and features against a real database: claims, reports of every kind, losses,
//! late and double reports, and commands of people. After every step the rows must agree with a recount.
#![allow(clippy::unwrap_used)]

mod aged;
mod availability;
mod caps;
mod failures;
mod git;
mod invariants;
mod limits;
mod people;
mod plans;
mod pool;
mod random;
mod retries;
mod rules;
mod scene;
mod scheduling;
mod shape;
mod stopping;
mod texts;
mod unattended;
mod wholes;
mod workers;

use ralph_tests::harness::World;

/// Steps of one history; with the seeds below, about a thousand transitions.
const STEPS: usize = 120;
const SEEDS: u64 = 14;

#[tokio::test(flavor = "multi_thread")]
async fn no_history_leads_to_an_illegal_state() {
    let world = World::start().await.unwrap();
    for seed in 1..=SEEDS {
        let mut history = random::History::begin(&world, seed).await;
        for step in 0..STEPS {
            let did = history.step().await;
            history.agrees(&format!("step {step}, {did}")).await;
        }
        if seed % 7 == 6 {
            history.cancel().await;
        } else {
            history.finish().await;
        }
        if let Err(broken) = invariants::check(&world.db).await {
            panic!("seed {seed}, at the end: {broken}\n{}", world.tell().await);
        }
    }
}

/// Two equal histories end their running sessions in opposite orders.
#[tokio::test(flavor = "multi_thread")]
async fn reports_of_different_tasks_give_the_same_result_in_any_order() {
    let worlds = [World::start().await.unwrap(), World::start().await.unwrap()];
    let mut compared = 0;
    for seed in 1..=30 {
        let mut ends = Vec::new();
        for (world, order) in worlds
            .iter()
            .zip([random::Order::Forward, random::Order::Backward])
        {
            let mut history = random::History::begin(world, seed).await;
            for _ in 0..10 + seed {
                history.step().await;
            }
            history.claim(3).await;
            let before = history.rows().await;
            let running = history.running.len();
            history.end_all(order).await;
            history.agrees("the last reports").await;
            ends.push((before, running, history.rows().await));
            history.forget().await;
        }
        let (one, other) = (&ends[0], &ends[1]);
        // The meaning of a lost session depends on its worker's last heartbeat, so the two histories may
        // differ.
        if (&one.0, one.1) == (&other.0, other.1) {
            compared += usize::from(one.1 > 1);
            assert_eq!(one.2, other.2, "seed {seed}");
        }
    }
    assert!(
        compared > 10,
        "only {compared} histories had two sessions at their end"
    );
}

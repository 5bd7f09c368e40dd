//! Workers that were idle for a while.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

/// Longer than the broker lets an idle request stay silent.
const IDLE_SECONDS: f64 = 7.0;

/// A poll without a ticket would come after 25 seconds.
const AT_ONCE_SECONDS: f64 = 5.0;

const ONE: &str = "- key: only\n  title: Only one\n  description: |\n    @done\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_wakes_an_idle_worker() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    wait_for_heartbeats(&world, IDLE_SECONDS).await;
    let (_, run, _) = world
        .submit("idle", None, ONE, &FeatureOptions::default())
        .await
        .unwrap();
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    let waited: f64 = sqlx::query_scalar(
        "select extract(epoch from d.claimed_at - r.started_at)::float8
         from dispatches d join runs r on r.id = d.run_id",
    )
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert!(waited < AT_ONCE_SECONDS, "the task waited for {waited} s");
    drop(worker);
}

/// Waits until a worker has sent heartbeats for this many seconds.
async fn wait_for_heartbeats(world: &World, seconds: f64) {
    until("heartbeats of the worker", async || {
        let since_start: Option<f64> =
            sqlx::query_scalar("select extract(epoch from max(seen_at - started_at))::float8 from workers")
                .fetch_one(&world.db)
                .await
                .unwrap();
        match since_start {
            Some(since_start) if since_start >= seconds => Ok(()),
            since_start => Err(format!("{since_start:?}")),
        }
    })
    .await;
}

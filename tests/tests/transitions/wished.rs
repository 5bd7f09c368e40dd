//! What people, or the end of a feature, wish of branches, and what becomes of that as things stand.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, World};

use super::scene::Scene;

const ONE: &str = "- {key: a, title: A}";

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_a_limit_forbids_is_told_with_the_runs_end() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, ONE, &FeatureOptions::default()).await;
    scene.done(&scene.claim().await).await;
    let lands = scene.claim().await;
    sqlx::raw_sql("update features set merge = 'squash'; update runs set max_cost_usd = 1, cost_usd = 2")
        .execute(&world.db)
        .await
        .unwrap();
    scene.done(&lands).await;
    scene.ends(RunOutcome::Complete).await;
    let reason: String = sqlx::query_scalar("select reason from runs")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(reason.contains("`feature merge f --how squash`"), "{reason}");
    scene.nothing_is_ready().await;
    world.stop().await;
}

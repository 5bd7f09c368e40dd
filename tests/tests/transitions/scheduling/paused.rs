//! A paused feature uses none of its run's wall time.

use ralph_coordinator::flow::control::FeatureCommand;
use ralph_coordinator::flow::finish;
use ralph_coordinator::store::view;
use ralph_tests::harness::{FeatureOptions, World};

use crate::scene::Scene;

/// Moves the current run this many hours into the past.
async fn pass(scene: &Scene<'_>, hours: f64) {
    sqlx::query(
        "update runs
         set started_at = started_at - $2 * interval '1 hour', paused_at = paused_at - $2 * interval '1 hour'
         where feature_id = $1",
    )
    .bind(scene.feature.0)
    .bind(hours)
    .execute(&scene.world.db)
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_paused_beyond_its_wall_time_continues() {
    let world = World::calm().await.unwrap();
    let mut options = FeatureOptions::default();
    options.run.max_time_ms = Some(24 * 3_600_000);
    let scene = Scene::set(&world, "- {key: a, title: A}", &options).await;
    let hours = async || {
        let mut conn = world.db.acquire().await.unwrap();
        let run: uuid::Uuid = sqlx::query_scalar("select id from runs where feature_id = $1")
            .bind(scene.feature.0)
            .fetch_one(&mut *conn)
            .await
            .unwrap();
        let run = view::runs(&mut conn, &[run]).await.unwrap().pop().unwrap();
        (
            run.elapsed_ms / 3_600_000,
            run.outcome.map(|outcome| outcome.into_str()),
        )
    };
    for pauses in 1..=2 {
        pass(&scene, 1.0).await;
        scene.feature(FeatureCommand::Pause).await;
        pass(&scene, 70.0).await;
        assert_eq!(hours().await, (pauses, None), "the run is paused");
        scene.feature(FeatureCommand::Resume).await;
        finish::tick(&world.db).await.unwrap();
        assert_eq!(hours().await, (pauses, None), "the run continues");
    }
    pass(&scene, 22.0).await;
    scene.nothing_is_ready().await;
    finish::tick(&world.db).await.unwrap();
    assert_eq!(hours().await, (24, Some("limit_reached")));
}

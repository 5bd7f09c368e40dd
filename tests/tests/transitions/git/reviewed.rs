//! When a feature gets another review.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::control::{CommandOutcome, TaskCommand};
use ralph_shared::wire::Assignment;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::{Scene, turn};

const THREE: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}";

/// Reports a review without requests.
async fn passes(scene: &Scene<'_>, of: &Assignment) {
    assert_eq!(of.kind.into_str(), "review");
    let report = scene.pool.session(of, turn(), "<review-pass/>", 0);
    scene.pool.report(vec![report]).await;
}

/// Completes the one ready task and lands it.
async fn lands(scene: &Scene<'_>) {
    let works = scene.claim().await;
    assert_eq!(works.kind.into_str(), "work");
    scene.done(&works).await;
    let lands = scene.claim().await;
    assert!(Pool::is_integration(&lands), "{:?}", lands.work);
    scene.done(&lands).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_retried_after_a_review_is_reviewed_while_rounds_remain() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, THREE, &FeatureOptions::default()).await;
    let [_, b, c] = scene.tasks[..] else { panic!() };
    sqlx::query("update features set review_rounds = 2")
        .execute(&world.db)
        .await
        .unwrap();
    for later in [b, c] {
        assert_eq!(
            scene.steer(later, TaskCommand::Skip).await,
            CommandOutcome::Done(1)
        );
    }
    lands(&scene).await;
    passes(&scene, &scene.claim().await).await;
    scene.ends(RunOutcome::Complete).await;

    // A task that is skipped again leaves nothing to review.
    scene.steer(b, TaskCommand::Retry).await;
    scene.run().await;
    scene.steer(b, TaskCommand::Skip).await;
    scene.ends(RunOutcome::Complete).await;

    scene.steer(b, TaskCommand::Retry).await;
    scene.run().await;
    lands(&scene).await;
    passes(&scene, &scene.claim().await).await;
    scene.ends(RunOutcome::Complete).await;

    // No review round is left.
    scene.steer(c, TaskCommand::Retry).await;
    scene.run().await;
    lands(&scene).await;
    scene.ends(RunOutcome::Complete).await;
    scene.holds().await;
}

//! Documents that a person writes instead of a step.

use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::flow::control::CommandOutcome;
use ralph_coordinator::flow::edit;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::EndReason;
use ralph_tests::harness::{FeatureOptions, World};

use super::scene::Scene;

const STEPS: &str = "- {key: spec, title: S}\n- {key: plan, title: P, after: [spec]}\n- {key: build, title: B, after: [plan]}";

/// A feature whose specification, plan and tasks have to be written.
async fn from_an_idea(world: &World) -> Scene<'_> {
    let scene = Scene::set(world, STEPS, &FeatureOptions::default()).await;
    sqlx::raw_sql(
        "update tasks t set role = x.key::session_kind, next_kind = x.key::session_kind from task_texts x where x.task_id = t.id;
         update ready_tasks set kind = 'spec'",
    )
    .execute(&world.db)
    .await
    .unwrap();
    scene
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_written_by_a_person_skips_the_specification_step() {
    let world = World::calm().await.unwrap();
    for begun in [false, true] {
        let scene = from_an_idea(&world).await;
        let [spec, plan, build] = scene.tasks[..] else {
            panic!()
        };
        let session = if begun { Some(scene.claim().await) } else { None };
        let (written, _) = edit::text(
            &world.db,
            scene.feature,
            SessionKind::Plan,
            "Do it.",
            None,
            "test".into(),
        )
        .await
        .unwrap();
        assert_eq!(written, CommandOutcome::Done(1));
        assert_eq!(scene.state(spec).await, TaskState::Skipped, "begun: {begun}");
        assert_eq!(scene.state(plan).await, TaskState::Done);
        if let Some(session) = session {
            assert_eq!(scene.pool.end_ordered(&session).await, Some(EndReason::Fenced));
        }
        assert_eq!(scene.claim().await.task, build);
        scene.nothing_is_ready().await;
        scene.holds().await;
        scene.forget().await;
    }
}

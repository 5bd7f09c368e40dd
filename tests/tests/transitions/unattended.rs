//! Runs without a person: a task that would wait for one fails for good, and the failure policy applies (SPEC
//! 2.4, 6.7).

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::{FailurePolicy, RunOutcome, TaskState};
use ralph_coordinator::flow::control::{CommandOutcome, TaskCommand};
use ralph_coordinator::flow::workers::rescue;
use ralph_tests::harness::{FeatureOptions, World};

use super::scene::Scene;

const PARTS: &str = "- {key: p, title: P}\n- {key: a, title: A, parent: p}\n- {key: b, title: B, parent: p}\n\
                     - {key: c, title: C, parent: p}\n- {key: d, title: D, after: [p]}";

fn unattended(failure_policy: FailurePolicy, max_retries: i32) -> FeatureOptions {
    FeatureOptions {
        failure_policy,
        max_retries,
        run: RunSettings {
            review: false,
            ..FeatureOptions::default().run
        },
        ..FeatureOptions::default()
    }
}

async fn calls_for_a_person(world: &World) -> i64 {
    sqlx::query_scalar("select count(*) from notices where event = 'person_needed'")
        .fetch_one(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_retries_fails_for_good_and_stops_its_siblings() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, PARTS, &unattended(FailurePolicy::Stop, 1)).await;
    let [p, a, b, c, d] = scene.tasks[..] else {
        panic!()
    };
    let first = scene.claim().await;
    let beside = scene.claim().await;
    assert_eq!((first.task, beside.task), (a, b));
    scene.fails(&first).await;
    assert_eq!(scene.state(a).await, TaskState::Pending, "one retry remains");
    scene.no_pauses().await;
    scene.goes_first(a).await;
    let second = scene.claim().await;
    assert_eq!((second.task, second.attempt), (a, 2));
    scene.fails(&second).await;
    scene.holds().await;
    assert_eq!(
        (scene.state(a).await, scene.state(p).await),
        (TaskState::Failed, TaskState::Failed)
    );
    // The session beside it lands; no other begins.
    scene.nothing_is_ready().await;
    scene.done(&beside).await;
    scene.done(&scene.claim().await).await;
    scene.holds().await;
    scene.ends(RunOutcome::Failure).await;
    assert_eq!(
        (scene.state(b).await, scene.state(c).await, scene.state(d).await),
        (TaskState::Done, TaskState::Pending, TaskState::Blocked)
    );
    let why: Option<String> = sqlx::query_scalar("select reason from task_texts where task_id = $1")
        .bind(a.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(why.is_some(), "screens show why it failed");
    assert_eq!(calls_for_a_person(&world).await, 0);

    // A person may retry it later.
    assert_eq!(scene.steer(a, TaskCommand::Retry).await, CommandOutcome::Done(1));
    scene.run().await;
    scene.holds().await;
    assert_eq!(scene.state(p).await, TaskState::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_continue_stops_only_the_dependents_of_a_failure() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C, after: [a]}";
    let scene = Scene::set(&world, graph, &unattended(FailurePolicy::Continue, 0)).await;
    let [a, b, c] = scene.tasks[..] else { panic!() };
    scene.fails(&scene.claim().await).await;
    assert_eq!(scene.state(a).await, TaskState::Failed);
    let other = scene.claim().await;
    assert_eq!(other.task, b);
    scene.done(&other).await;
    scene.done(&scene.claim().await).await;
    scene.holds().await;
    assert_eq!(
        (scene.state(b).await, scene.state(c).await),
        (TaskState::Done, TaskState::Blocked)
    );
    scene.ends(RunOutcome::Failure).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_kills_three_workers_fails_for_good() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(
        &world,
        "- {key: a, title: A}",
        &unattended(FailurePolicy::Continue, 3),
    )
    .await;
    let [a] = scene.tasks[..] else { panic!() };
    for _ in 0..3 {
        let of = scene.claim().await;
        // Its worker is gone, and no other session was lost with it.
        sqlx::query("update dispatches set lease_until = '-infinity' where id = $1")
            .bind(of.dispatch.0)
            .execute(&world.db)
            .await
            .unwrap();
        sqlx::query("update workers set seen_at = now() - interval '1 hour'")
            .execute(&world.db)
            .await
            .unwrap();
        let (lost, _) = rescue::rescue(&world.db, world.settings.lease_ms(), true)
            .await
            .unwrap();
        assert_eq!(lost, 1);
        scene.holds().await;
        sqlx::query("update workers set seen_at = now()")
            .execute(&world.db)
            .await
            .unwrap();
    }
    assert_eq!(scene.state(a).await, TaskState::Failed);
    scene.ends(RunOutcome::Failure).await;
    assert_eq!(calls_for_a_person(&world).await, 0);
}

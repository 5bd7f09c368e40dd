//! Effects of a failure under the policy `stop` (SPEC 2.4), and how they end.

use ralph_coordinator::domain::states::{FailurePolicy, RunOutcome, TaskState};
use ralph_coordinator::flow::control::{self, CommandOutcome, TaskCommand};
use ralph_coordinator::flow::edit::remove;
use ralph_tests::harness::{FeatureOptions, World};

use super::scene::{Scene, turn};

const FLAT: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}";
const PARTS: &str = "- {key: p, title: P}\n- {key: a, title: A, parent: p}\n- {key: b, title: B, parent: p}\n\
                     - {key: c, title: C, parent: p}\n- {key: d, title: D, parent: c}";

fn stop() -> FeatureOptions {
    FeatureOptions {
        failure_policy: FailurePolicy::Stop,
        max_retries: 0,
        ..FeatureOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_beside_a_failure_lands_and_no_other_begins() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        verify: true,
        ..stop()
    };
    let scene = Scene::set(&world, FLAT, &options).await;
    let [a, b, c] = scene.tasks[..] else { panic!() };
    let of_a = scene.claim().await;
    let of_b = scene.claim().await;
    assert_eq!((of_a.task, of_b.task), (a, b));
    assert_eq!(scene.steer(a, TaskCommand::Fail).await, CommandOutcome::Done(1));
    scene.holds().await;
    scene.nothing_is_ready().await;
    for kind in ["work", "verify", "integrate"] {
        let of = if kind == "work" {
            of_b.clone()
        } else {
            scene.claim().await
        };
        assert_eq!((of.task, of.kind.into_str()), (b, kind));
        scene.done(&of).await;
        scene.holds().await;
    }
    scene.ends(RunOutcome::Failure).await;
    assert_eq!(scene.state(c).await, TaskState::Pending);
    assert_eq!(scene.steer(a, TaskCommand::Retry).await, CommandOutcome::Done(1));
    scene.run().await;
    scene.holds().await;
    let mut ready = [scene.claim().await.task, scene.claim().await.task];
    ready.sort();
    assert_eq!(ready, [a, c]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolved_or_deleted_failure_stops_nothing() {
    let world = World::calm().await.unwrap();
    for command in [
        Some(TaskCommand::Skip),
        Some(TaskCommand::Done),
        Some(TaskCommand::Cancel),
        None,
    ] {
        let scene = Scene::set(&world, PARTS, &stop()).await;
        let [p, a, b, _, d] = scene.tasks[..] else {
            panic!()
        };
        scene.steer(a, TaskCommand::Fail).await;
        scene.ends(RunOutcome::Failure).await;
        assert_eq!(scene.state(p).await, TaskState::Failed);
        let outcome = match command {
            Some(command) => scene.steer(a, command).await,
            None => remove::task(&world.db, a, "test").await.unwrap().0,
        };
        assert_eq!(outcome, CommandOutcome::Done(1), "{command:?}");
        assert_eq!(scene.state(p).await, TaskState::Pending, "{command:?}");
        scene.run().await;
        scene.holds().await;
        let mut ready = [scene.claim().await.task, scene.claim().await.task];
        ready.sort();
        assert_eq!(ready, [b, d], "{command:?}");
        scene.forget().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_one_of_two_failures_runs_and_the_rest_waits() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, PARTS, &stop()).await;
    let [p, a, b, _, d] = scene.tasks[..] else {
        panic!()
    };
    scene.steer(a, TaskCommand::Fail).await;
    scene.steer(b, TaskCommand::Fail).await;
    scene.holds().await;
    scene.steer(a, TaskCommand::Retry).await;
    assert_eq!(scene.state(p).await, TaskState::Failed, "b is still failed");
    scene.run().await;
    scene.holds().await;
    assert_eq!(scene.claim().await.task, a);
    scene.nothing_is_ready().await;
    scene.steer(b, TaskCommand::Retry).await;
    scene.holds().await;
    let mut ready = [scene.claim().await.task, scene.claim().await.task];
    ready.sort();
    assert_eq!((ready, scene.state(p).await), ([b, d], TaskState::Pending));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_split_beside_a_failure_waits_with_its_children() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, FLAT, &stop()).await;
    let [a, ..] = scene.tasks[..] else { panic!() };
    let _ = scene.claim().await;
    let of_b = scene.claim().await;
    scene.steer(a, TaskCommand::Fail).await;
    let text = "<task-graph>- {key: x, title: X}\n- {key: y, title: Y, parent: x}</task-graph>";
    let split = scene.pool.session(&of_b, turn(), text, 1);
    scene.pool.report(vec![split]).await;
    scene.holds().await;
    scene.ends(RunOutcome::Failure).await;
    scene.steer(a, TaskCommand::Skip).await;
    scene.run().await;
    scene.holds().await;
    assert_eq!(scene.pool.claim(4).await.len(), 2, "c and b's child");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parents_retry_retries_its_failed_children_with_the_reason() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, PARTS, &stop()).await;
    let [p, a, b, _, d] = scene.tasks[..] else {
        panic!()
    };
    let of_a = scene.claim().await;
    let of_b = scene.claim().await;
    assert_eq!((of_a.task, of_b.task), (a, b));
    scene.fails(&of_a).await;
    assert_eq!(scene.state(a).await, TaskState::NeedsReview);
    assert_eq!(scene.state(p).await, TaskState::Pending);
    scene.steer(b, TaskCommand::Fail).await;
    scene.holds().await;
    let (outcome, _) = control::task(&world.db, p, TaskCommand::Retry, "test", Some("the data is back"))
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(2));
    scene.run_if_over().await;
    scene.holds().await;
    let mut ready = Vec::new();
    for of in scene.pool.claim(4).await {
        ready.push(of.task);
    }
    ready.sort();
    assert_eq!(ready, [a, b, d]);
    for task in [a, b] {
        let feedback: Option<String> = sqlx::query_scalar(
            "select feedback from dispatches where task_id = $1 order by claimed_at limit 1",
        )
        .bind(task.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
        assert_eq!(feedback.as_deref(), Some("the data is back"));
        let logged: i64 = sqlx::query_scalar(
            "select count(*) from task_logs where task_id = $1 and what = 'retry' and why = 'the data is back'",
        )
        .bind(task.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
        assert_eq!(logged, 1);
    }
    let CommandOutcome::Refused(why) = scene.steer(p, TaskCommand::Retry).await else {
        panic!("the retry was accepted")
    };
    assert!(
        why.contains("nothing below") && why.contains(&p.to_string()),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_task_that_waits_again_wait_with_it() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: b, title: B}\n- {key: d, title: D, after: [b]}";
    let scene = Scene::set(&world, graph, &FeatureOptions::default()).await;
    let [b, d] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Skip).await;
    let of_d = scene.claim().await;
    assert_eq!(of_d.task, d);
    scene.steer(b, TaskCommand::Retry).await;
    let text = "<task-graph>- {key: x, title: X}\n- {key: y, title: Y, parent: x}</task-graph>";
    let split = scene.pool.session(&of_d, turn(), text, 1);
    scene.pool.report(vec![split]).await;
    scene.holds().await;
    let again = scene.claim().await;
    assert_eq!(again.task, b);
    scene.nothing_is_ready().await;
    scene.done(&again).await;
    let landing = scene.claim().await;
    scene.done(&landing).await;
    scene.holds().await;
    let part = scene.claim().await;
    assert_eq!(part.task_title, "Y");
    // The child starts from the attempt's commit, though it isn't a root of the graph.
    let starts: Vec<Option<String>> =
        sqlx::query_scalar("select start_commit from tasks where id = any($1) order by id = $2")
            .bind([part.task.0, d.0])
            .bind(d.0)
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert!(starts[0].is_some() && starts[0] == starts[1], "{starts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_verification_begins_beyond_a_limit() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, "- {key: a, title: A}\n- {key: b, title: B}", &options).await;
    let (first, _runs) = (scene.claim().await, scene.claim().await);
    scene.done(&first).await;
    sqlx::query("update runs set max_cost_usd = 1, cost_usd = 2")
        .execute(&world.db)
        .await
        .unwrap();
    scene.nothing_is_ready().await;
    sqlx::query("update runs set cost_usd = 0.5")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(scene.claim().await.task, first.task, "its verification");
}

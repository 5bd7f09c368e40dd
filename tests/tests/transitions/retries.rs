//! Retries while other tasks continue: which tasks wait, and which go on.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_coordinator::flow::control::{self, CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::{control::approve, edit};
use ralph_shared::ids::TaskId;
use ralph_shared::wire::{Assignment, IntegrationEnd, WorkspaceOrder};
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::scene::{Scene, turn};

const CHAIN: &str = "- {key: b, title: B}\n- {key: t, title: T, after: [b]}";

/// A scene in which `t` works while its skipped blocker `b` is retried, with the sessions of `t` and `b`.
async fn both_work(world: &World) -> (Scene<'_>, [ralph_shared::wire::Assignment; 2]) {
    let scene = Scene::set(world, CHAIN, &FeatureOptions::default()).await;
    let [b, _] = scene.tasks[..] else { panic!() };
    assert_eq!(scene.steer(b, TaskCommand::Skip).await, CommandOutcome::Done(1));
    let works = scene.claim().await;
    assert_eq!(scene.steer(b, TaskCommand::Retry).await, CommandOutcome::Done(1));
    let again = scene.claim().await;
    assert_eq!((works.task, again.task), (scene.tasks[1], b));
    scene.holds().await;
    (scene, [works, again])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_task_lands_while_its_blocker_is_retried() {
    let world = World::calm().await.unwrap();
    let (scene, [works, again]) = both_work(&world).await;
    scene.done(&works).await;
    let lands = scene.claim().await;
    assert_eq!((lands.task, lands.kind.into_str()), (works.task, "integrate"));
    scene.done(&again).await;
    scene.done(&lands).await;
    scene.holds().await;
    let lands = scene.claim().await;
    assert_eq!(lands.task, again.task);
    scene.done(&lands).await;
    scene.ends(RunOutcome::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_while_its_blocker_is_retried_waits_for_it() {
    let world = World::calm().await.unwrap();
    let (scene, [works, again]) = both_work(&world).await;
    scene.fails(&works).await;
    assert_eq!(scene.state(works.task).await, TaskState::Blocked);
    scene.holds().await;
    scene.done(&again).await;
    scene.done(&scene.claim().await).await;
    scene.no_pauses().await;
    let begins = scene.claim().await;
    assert_eq!((begins.task, begins.attempt), (works.task, 2));
    scene.done(&begins).await;
    scene.done(&scene.claim().await).await;
    scene.ends(RunOutcome::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_waits_again_holds_its_children() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: b, title: B}\n- {key: p, title: P, after: [b]}\n- {key: x, title: X, parent: p}\n- {key: y, title: Y, \
                 parent: p}";
    let scene = Scene::set(&world, graph, &FeatureOptions::default()).await;
    let [b, _, x, y] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Skip).await;
    let works = scene.claim().await;
    assert_eq!(works.task, x);
    scene.steer(b, TaskCommand::Retry).await;
    scene.holds().await;
    assert_eq!(scene.state(y).await, TaskState::Blocked);
    assert_eq!(scene.claim().await.task, b);
    scene.done(&works).await;
    let lands = scene.claim().await;
    assert_eq!(lands.task, x);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_task_lands_while_its_blocker_is_retried() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, CHAIN, &options).await;
    let [b, t] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Skip).await;
    scene.fails(&scene.claim().await).await;
    scene.ends(RunOutcome::Blocked).await;
    scene.steer(b, TaskCommand::Retry).await;
    let (outcome, _) = approve::approve(&world.db, t, "test", None).await.unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    scene.run().await;
    scene.holds().await;
    let mut claimed = [scene.claim().await.task, scene.claim().await.task];
    claimed.sort();
    assert_eq!(claimed, [b, t]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_of_a_cancelled_feature_can_be_approved() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, "- {key: a, title: A}", &options).await;
    scene.fails(&scene.claim().await).await;
    scene.ends(RunOutcome::Blocked).await;
    scene.feature(FeatureCommand::Cancel).await;
    let (outcome, _) = approve::approve(&world.db, scene.tasks[0], "test", None)
        .await
        .unwrap();
    let CommandOutcome::Refused(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains("`f` is cancelled"), "{why}");
    assert_eq!(scene.state(scene.tasks[0]).await, TaskState::NeedsReview);
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_reaches_every_next_session_and_verifiers_too() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, "- {key: a, title: A}", &options).await;
    let a = scene.tasks[0];
    let interrupt = async |words: &str| {
        let (outcome, _) = control::interrupt(&world.db, a, "test", Some(words))
            .await
            .unwrap();
        assert_eq!(outcome, CommandOutcome::Done(1));
    };
    let works = scene.claim().await;
    control::feedback(&world.db, a, "test", "the first word")
        .await
        .unwrap();
    interrupt("the second word").await;
    interrupt("the third word").await;
    scene.is_interrupted(&works).await;
    let works = scene.claim().await;
    let prompt = Scene::prompt(&works);
    for word in ["first", "second", "third"] {
        assert!(prompt.contains(&format!("the {word} word")), "{prompt}");
    }
    scene.done(&works).await;
    let verifies = scene.claim().await;
    assert_eq!(verifies.kind.into_str(), "verify");
    interrupt("mind the empty list").await;
    scene.is_interrupted(&verifies).await;
    let verifies = scene.claim().await;
    assert_eq!(verifies.kind.into_str(), "verify");
    let prompt = Scene::prompt(&verifies);
    assert!(prompt.contains("mind the empty list"), "{prompt}");
    scene.fails(&verifies).await;
    scene.no_pauses().await;
    let works = scene.claim().await;
    let prompt = Scene::prompt(&works);
    assert!(prompt.contains("mind the empty list"), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_off_outlasts_a_wait_for_a_blocker() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        run: RunSettings {
            backoff_ms: 600_000,
            ..FeatureOptions::default().run
        },
        ..FeatureOptions::default()
    };
    let paused = async |task: TaskId| -> Option<bool> {
        sqlx::query_scalar(
            "select not_before > now() + interval '5 minutes' from ready_tasks where task_id = $1",
        )
        .bind(task.0)
        .fetch_optional(&world.db)
        .await
        .unwrap()
    };
    // The task fails while its blocker is retried.
    let scene = Scene::set(&world, CHAIN, &options).await;
    let [b, t] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Skip).await;
    let works = scene.claim().await;
    scene.steer(b, TaskCommand::Retry).await;
    let again = scene.claim().await;
    scene.fails(&works).await;
    assert_eq!(
        (scene.state(t).await, paused(t).await),
        (TaskState::Blocked, None)
    );
    scene.done(&again).await;
    scene.done(&scene.claim().await).await;
    assert_eq!(
        (scene.state(t).await, paused(t).await),
        (TaskState::Pending, Some(true))
    );
    scene.forget().await;
    // The task has to wait for its blocker during its back-off.
    let scene = Scene::set(&world, CHAIN, &options).await;
    let [b, t] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Skip).await;
    scene.fails(&scene.claim().await).await;
    assert_eq!(paused(t).await, Some(true));
    scene.steer(b, TaskCommand::Retry).await;
    assert_eq!(
        (scene.state(t).await, paused(t).await),
        (TaskState::Blocked, None)
    );
    scene.done(&scene.claim().await).await;
    scene.done(&scene.claim().await).await;
    assert_eq!(
        (scene.state(t).await, paused(t).await),
        (TaskState::Pending, Some(true))
    );
    // A task that a person retries has no back-off.
    scene.steer(t, TaskCommand::Fail).await;
    scene.steer(t, TaskCommand::Retry).await;
    scene.run_if_over().await;
    assert_eq!(paused(t).await, Some(false));
    assert_eq!(scene.claim().await.task, t);
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_retry_reaches_a_task_that_never_began() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, CHAIN, &FeatureOptions::default()).await;
    let [b, _] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Cancel).await;
    let why = Some("Use the new parser.");
    let (outcome, _) = control::task(&world.db, b, TaskCommand::Retry, "test", why)
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    let description: String = sqlx::query_scalar("select description from task_texts where task_id = $1")
        .bind(b.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(description.ends_with("Use the new parser."), "{description}");
    scene.run_if_over().await;
    assert_eq!(scene.claim().await.task, b);
}

/// A session's report knows only the changes since its own start.
#[tokio::test(flavor = "multi_thread")]
async fn corrections_of_an_earlier_review_attempt_land_with_the_verdict() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, "- {key: a, title: A}", &FeatureOptions::default()).await;
    sqlx::raw_sql(
        "update tasks set role = 'review', next_kind = 'review'; update ready_tasks set kind = 'review'",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let reviewed = async |text: &str, changes: u64| {
        scene.no_pauses().await;
        let of = scene.claim().await;
        assert_eq!(of.kind.into_str(), "review");
        let report = scene.pool.session(&of, turn(), text, changes);
        scene.pool.report(vec![report]).await;
        of
    };
    let start = |of: &Assignment| match &of.workspace {
        WorkspaceOrder::Git(git) => git.start.clone(),
        other => panic!("{other:?}"),
    };
    reviewed("I looked around.", 0).await;
    let corrects = reviewed("I corrected something.", 1).await;
    assert_eq!(start(&corrects), None, "there are no earlier corrections");
    let passes = reviewed("<review-pass/>", 0).await;
    assert_eq!(start(&passes), Pool::pushed_by(&corrects).0);
    let lands = scene.claim().await;
    assert!(Pool::is_integration(&lands), "{:?}", lands.work);

    // A review whose corrections the gate refuses starts anew; then there is nothing to land.
    let refused = IntegrationEnd::GateFailed {
        command: "make".to_owned(),
        output: "no".to_owned(),
    };
    let report = scene.pool.integration(&lands, refused);
    scene.pool.report(vec![report]).await;
    let anew = reviewed("<review-pass/>", 0).await;
    assert_eq!(start(&anew), None);
    scene.holds().await;
    scene.ends(RunOutcome::Complete).await;
}

/// A person ends the review while its own corrections are under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_reviews_requests_become_tasks_if_done_and_are_dropped_if_skipped() {
    let world = World::calm().await.unwrap();
    for command in [TaskCommand::Done, TaskCommand::Skip] {
        let scene = Scene::set(&world, "- {key: a, title: A}", &FeatureOptions::default()).await;
        let review = scene.tasks[0];
        sqlx::raw_sql(
            "update tasks set role = 'review', next_kind = 'review'; update ready_tasks set kind = 'review'",
        )
        .execute(&world.db)
        .await
        .unwrap();
        let text = "<review-changes>Name it.</review-changes>";
        let report = scene.pool.session(&scene.claim().await, turn(), text, 1);
        scene.pool.report(vec![report]).await;
        let graph = async || -> Option<String> {
            sqlx::query_scalar("select proposed_graph from feature_texts")
                .fetch_one(&world.db)
                .await
                .unwrap()
        };
        assert!(graph().await.is_some_and(|graph| graph.contains("Name it.")));
        let other = "- {key: z, title: Z}";
        let (edited, _) = edit::graph(&world.db, scene.feature, other, None).await.unwrap();
        assert!(
            matches!(edited, CommandOutcome::Refused(_)),
            "the graph needs no approval: {edited:?}"
        );
        assert_eq!(scene.steer(review, command).await, CommandOutcome::Done(1));
        assert_eq!(graph().await, None, "{command:?}");
        scene.holds().await;
        if command == TaskCommand::Done {
            let of = scene.claim().await;
            assert_eq!(of.task_title, "Make the changes that the review asks for");
        } else {
            scene.ends(RunOutcome::Complete).await;
            let dropped: bool = sqlx::query_scalar(
                "select exists (select from task_logs where task_id = $1 and why like '%Name it.%')",
            )
            .bind(review.0)
            .fetch_one(&world.db)
            .await
            .unwrap();
            assert!(dropped, "the log contains the dropped request");
        }
        scene.forget().await;
    }
}

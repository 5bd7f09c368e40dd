//! Commands of people while attempts are in the train.

use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::control::{CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::edit;
use ralph_coordinator::flow::integrate::operations::{self, Operated, RevertRequest};
use ralph_coordinator::store::edit::TaskEdit;
use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::IntegrationEnd;
use ralph_tests::harness::World;

use super::{ahead, given, lands, lands_on, options, passes, report, tree, worked};
use crate::pool::Pool;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_checked_again_after_a_persons_push() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Each)).await;
    let [_, b, c, d] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    for (n, check) in checks.iter().enumerate() {
        passes(&scene, check, tree(n + 2), vec![]).await;
    }
    lands(&scene, &turn.unwrap()).await;
    let (turn, none) = given(&scene).await;
    assert_eq!(none.len(), 0);
    let turn = turn.unwrap();
    assert_eq!(turn.task, b);
    lands_on(&scene, &turn, format!("{:040x}", 77)).await;
    let (turn, checks) = given(&scene).await;
    assert_eq!(turn.unwrap().task, c);
    assert_eq!((checks[0].task, ahead(&checks[0])), (d, vec![c]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_attempt_leaves_the_train() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Each)).await;
    let [a, b, c, d] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    assert_eq!(scene.steer(b, TaskCommand::Cancel).await, CommandOutcome::Done(1));
    scene.holds().await;
    // Its check's result no longer matters.
    passes(&scene, &checks[0], tree(2), vec![]).await;
    let (_, again) = given(&scene).await;
    assert_eq!((again[0].task, ahead(&again[0])), (c, vec![a]));
    assert_eq!((again[1].task, ahead(&again[1])), (d, vec![a, c]));
    lands(&scene, &turn.unwrap()).await;
    assert_eq!(scene.state(b).await, TaskState::Cancelled);
}

/// A task in the train can't be edited. Once it is released, it can be edited and is worked on again.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_must_leave_the_train_before_it_can_be_edited() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let [a, b, c] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    let options = TaskEdit {
        description: Some("Do it another way".to_owned()),
        ..TaskEdit::default()
    };
    let edit = async || edit::task(&world.db, b, &options, None, "test").await.unwrap().0;
    let CommandOutcome::Refused(why) = edit().await else {
        panic!("a task in the train was edited")
    };
    assert!(why.contains(&format!("`task release {b}`")), "{why}");
    assert_eq!(
        scene.steer(b, TaskCommand::Release).await,
        CommandOutcome::Done(1)
    );
    assert_eq!(edit().await, CommandOutcome::Done(1));
    scene.holds().await;
    // Its check's result no longer matters.
    passes(&scene, &checks[0], tree(2), vec![]).await;
    let claimed = scene.pool.claim(300).await;
    let work = claimed.iter().find(|of| of.kind == SessionKind::Work).unwrap();
    assert_eq!((work.task, work.attempt), (b, 2));
    assert!(Scene::prompt(work).contains("Do it another way"));
    let check = claimed.iter().find(|of| Pool::is_check(of)).unwrap();
    assert_eq!((check.task, ahead(check), claimed.len()), (c, vec![a], 2));
    lands(&scene, &turn.unwrap()).await;
}

/// A waiting attempt has no landing to revert. Reverting an earlier landing changes the tree behind it.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_checked_again_after_a_landing_is_reverted() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Each)).await;
    let [a, b, c, d] = scene.tasks[..] else { panic!() };
    let revert = async |task| {
        let (templates, options) = (&world.settings.templates, RevertRequest::default());
        let id = TaskId::new();
        let reverted = operations::revert(&world.db, templates, task, id, options, None, "test").await;
        scene.holds().await;
        (reverted.unwrap().0, id)
    };
    let (turn, checks) = given(&scene).await;
    assert!(matches!(revert(b).await.0, Operated::Refused(_)));
    for (n, check) in checks.iter().enumerate() {
        passes(&scene, check, tree(n + 2), vec![]).await;
    }
    lands(&scene, &turn.unwrap()).await;
    let (turn, _) = given(&scene).await;
    let (operated, id) = revert(a).await;
    assert_eq!(operated, Operated::Accepted(vec![id]));
    let of = scene.claim().await;
    assert_eq!(of.task, id);
    scene.done(&of).await;
    // No earlier check applies after the revert.
    let (_, again) = given(&scene).await;
    assert_eq!((again[0].task, ahead(&again[0])), (c, vec![b]));
    assert_eq!((again[1].task, ahead(&again[1])), (d, vec![b, c]));
    lands(&scene, &turn.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_feature_checks_nothing_and_continues_after_a_resume() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let (turn, checks) = given(&scene).await;
    scene.feature(FeatureCommand::Pause).await;
    scene.holds().await;
    for check in &checks {
        let end = IntegrationEnd::Told {
            reason: ralph_shared::wire::EndReason::Interrupted,
        };
        report(&scene, check, end, None).await;
    }
    scene.nothing_is_ready().await;
    scene.feature(FeatureCommand::Resume).await;
    let (_, again) = given(&scene).await;
    assert_eq!(again.len(), 2);
    lands(&scene, &turn.unwrap()).await;
}

//! What people do while attempts are in the train.

use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::control::{CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::edit;
use ralph_shared::wire::IntegrationEnd;
use ralph_tests::harness::World;

use super::{ahead, given, lands, lands_on, options, passes, report, tree, worked};

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_pushes_in_between_has_those_behind_checked_again() {
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
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_in_the_train_is_missed_by_nobody() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Each)).await;
    let [a, b, c, d] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    assert_eq!(scene.steer(b, TaskCommand::Cancel).await, CommandOutcome::Done(1));
    scene.holds().await;
    // What it comes to is of no interest any more.
    passes(&scene, &checks[0], tree(2), vec![]).await;
    let (_, again) = given(&scene).await;
    assert_eq!((again[0].task, ahead(&again[0])), (c, vec![a]));
    assert_eq!((again[1].task, ahead(&again[1])), (d, vec![a, c]));
    lands(&scene, &turn.unwrap()).await;
    assert_eq!(scene.state(b).await, TaskState::Cancelled);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_feature_checks_nothing_and_goes_on_where_it_was() {
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
    world.stop().await;
}

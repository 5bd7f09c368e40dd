//! What people do while attempts are in the train.

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
}

/// It can't be edited while it is on its way; taken out of the train it can, and is worked on again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_edited_leaves_the_train_before_and_those_behind_it_are_made_without_it() {
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
        panic!("it was edited on its way")
    };
    assert!(why.contains(&format!("`task release {b}`")), "{why}");
    assert_eq!(
        scene.steer(b, TaskCommand::Release).await,
        CommandOutcome::Done(1)
    );
    assert_eq!(edit().await, CommandOutcome::Done(1));
    scene.holds().await;
    // What its check comes to is of no interest any more.
    passes(&scene, &checks[0], tree(2), vec![]).await;
    let claimed = scene.pool.claim(300).await;
    let work = claimed.iter().find(|of| of.kind == SessionKind::Work).unwrap();
    assert_eq!((work.task, work.attempt), (b, 2));
    assert!(Scene::prompt(work).contains("Do it another way"));
    let check = claimed.iter().find(|of| Pool::is_check(of)).unwrap();
    assert_eq!((check.task, ahead(check), claimed.len()), (c, vec![a], 2));
    lands(&scene, &turn.unwrap()).await;
}

/// Nothing of a car has landed that could be taken back; what landed before it can, and then its tree is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_landing_that_is_taken_back_has_those_behind_it_checked_again() {
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
    // Neither holds any more what was checked behind the landing.
    let (_, again) = given(&scene).await;
    assert_eq!((again[0].task, ahead(&again[0])), (c, vec![b]));
    assert_eq!((again[1].task, ahead(&again[1])), (d, vec![b, c]));
    lands(&scene, &turn.unwrap()).await;
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
}

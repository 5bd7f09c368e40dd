//! Trains with batches: one gate for several attempts.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::control::CommandOutcome;
use ralph_coordinator::flow::edit;
use ralph_coordinator::store::edit::FeatureEdit;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::Assignment;
use ralph_tests::harness::World;

use super::{ahead, fails, given, lands, options, order, passes, tree, worked};
use crate::scene::Scene;

/// Changes the feature's run settings as a person would.
async fn edited(scene: &Scene<'_>, change: impl Fn(&mut RunSettings) + Send + Sync) {
    let change = |now: &RunSettings| {
        let mut settings = now.clone();
        change(&mut settings);
        Ok(settings)
    };
    let nothing = FeatureEdit::default();
    let by = "test".into();
    let done = edit::feature(&scene.world.db, scene.feature, &nothing, None, Some(&change), by).await;
    assert_eq!(done.unwrap().0, CommandOutcome::Done(0));
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_lands_with_one_gate_on_its_last_commit() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Batch)).await;
    let (turn, checks) = given(&scene).await;
    assert!(turn.is_none(), "nothing lands before the gate passes");
    let [tip] = &checks[..] else { panic!("{checks:?}") };
    assert_eq!((tip.task, ahead(tip).len()), (scene.tasks[3], 3));
    passes(&scene, tip, tree(4), vec![tree(1), tree(2), tree(3)]).await;
    for (n, task) in scene.tasks.clone().into_iter().enumerate() {
        let (turn, checks) = given(&scene).await;
        let turn = turn.unwrap();
        assert_eq!((turn.task, checks.len()), (task, 0));
        let known = order(&turn).passed.iter().find(|known| known.tree == tree(n + 1));
        assert_eq!(known.unwrap().tip, (n < 3).then(|| tree(4)));
        lands(&scene, &turn).await;
    }
    scene.ends(RunOutcome::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn landing_each_does_not_accept_the_gate_of_a_batch() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Batch)).await;
    let (_, checks) = given(&scene).await;
    passes(&scene, &checks[0], tree(3), vec![tree(1), tree(2)]).await;
    edited(&scene, |run| run.landing = Landing::Each).await;
    let (turn, _) = given(&scene).await;
    let known = |of: &Assignment| -> Vec<_> {
        let trees = order(of).passed.iter();
        trees
            .map(|known| (known.tree.clone(), known.tip.clone()))
            .collect()
    };
    let turn = turn.unwrap();
    assert_eq!(
        known(&turn),
        [(tree(3), None)],
        "the gate ran on the last tree only"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_is_halved_until_one_attempt_is_to_blame() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Batch)).await;
    let [a, b, c, d] = scene.tasks[..] else { panic!() };
    let one = async || given(&scene).await.1.pop().unwrap();
    let tip = one().await;
    fails(&scene, &tip, tree(4)).await;
    let half = one().await;
    assert_eq!((half.task, ahead(&half)), (b, vec![a]));
    fails(&scene, &half, tree(2)).await;
    let first = one().await;
    assert_eq!((first.task, ahead(&first)), (a, vec![]));
    passes(&scene, &first, tree(1), vec![]).await;
    // The second attempt is to blame: the first lands, and the others are tried without it.
    let (turn, checks) = given(&scene).await;
    assert_eq!((checks[0].task, ahead(&checks[0])), (d, vec![a, c]));
    let turn = turn.unwrap();
    assert_eq!(turn.task, a);
    lands(&scene, &turn).await;
    let (turn, _) = given(&scene).await;
    let turn = turn.unwrap();
    assert_eq!((turn.task, order(&turn).failed.is_some()), (b, true));
    fails(&scene, &turn, tree(2)).await;
    passes(&scene, &checks[0], tree(5), vec![tree(6)]).await;
    for task in [c, d] {
        let turn = scene.claim().await;
        assert_eq!((turn.task, turn.kind), (task, SessionKind::Integrate));
        lands(&scene, &turn).await;
    }
}

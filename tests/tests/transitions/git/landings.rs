//! Integrations whose push may have arrived, reports that come too late, and landings that are reverted.

use std::collections::BTreeSet;

use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_coordinator::flow::control::{CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::edit::dependencies::{self, Change};
use ralph_coordinator::flow::integrate::operations::{self, Operated, RevertRequest};
use ralph_coordinator::flow::{integrate, workers::rescue};
use ralph_shared::ids::{Incarnation, TaskId};
use ralph_shared::wire::{Assignment, DecideAnswer, DecideRequest, IntegrationEnd, Work};
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::{Scene, turn};

const TWO: &str = "- {key: a, title: A}\n- {key: b, title: B}";

async fn decide(scene: &Scene<'_>, of: &Assignment) {
    assert_eq!(
        asked_by(scene, of, scene.pool.incarnation).await,
        DecideAnswer::Decided
    );
}

/// The coordinator's answer to this incarnation's question whether it may push.
async fn asked_by(scene: &Scene<'_>, of: &Assignment, incarnation: Incarnation) -> DecideAnswer {
    let request = DecideRequest {
        dispatch: of.dispatch,
        incarnation,
        old: format!("{:040x}", 1),
        new: format!("{:040x}", 2),
    };
    integrate::decide(&scene.world.db, &request).await.unwrap()
}

async fn integration(world: &World, task: TaskId) -> String {
    sqlx::query_scalar(
        "select state::text from integrations where task_id = $1 order by queued_at desc limit 1",
    )
    .bind(task.0)
    .fetch_one(&world.db)
    .await
    .unwrap()
}

fn failed() -> IntegrationEnd {
    IntegrationEnd::Failed {
        message: "whether it arrived is not known".to_owned(),
        retry: true,
        away: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_push_may_have_arrived_cannot_be_cancelled() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, TWO, &FeatureOptions::default()).await;
    let [a, _] = scene.tasks[..] else { panic!() };
    scene.done(&scene.claim().await).await;
    let of = scene.claim().await;
    assert!(of.task == a && Pool::is_integration(&of));
    let strangers = asked_by(&scene, &of, Incarnation::new()).await;
    assert!(matches!(strangers, DecideAnswer::Refused { .. }), "{strangers:?}");
    decide(&scene, &of).await;
    scene
        .pool
        .report(vec![scene.pool.integration(&of, failed())])
        .await;
    assert_eq!(integration(&world, a).await, "decided");
    for command in [TaskCommand::Cancel, TaskCommand::Release, TaskCommand::Fail] {
        let outcome = scene.steer(a, command).await;
        assert!(
            matches!(outcome, CommandOutcome::Refused(_)),
            "{command:?}: {outcome:?}"
        );
    }
    // The next worker finishes the push as it was decided.
    scene.no_pauses().await;
    let next = scene.claim().await;
    let Work::Integrate(order) = &next.work else {
        panic!("{:?}", next.work)
    };
    assert!(next.task == a && order.resume.is_some(), "{order:?}");
    let void = IntegrationEnd::Void {
        reason: "the branch moved on".to_owned(),
    };
    scene.pool.report(vec![scene.pool.integration(&next, void)]).await;
    assert_ne!(
        integration(&world, a).await,
        "decided",
        "the push can't arrive any more"
    );
    assert_eq!(scene.steer(a, TaskCommand::Cancel).await, CommandOutcome::Done(1));
    scene.holds().await;
}

/// A paused feature refuses `feature run`, so the message names `feature resume`.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_features_unknown_push_names_feature_resume() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, TWO, &FeatureOptions::default()).await;
    scene.done(&scene.claim().await).await;
    let of = scene.claim().await;
    decide(&scene, &of).await;
    let report = scene.pool.integration(&of, failed());
    scene.pool.report(vec![report]).await;
    scene.feature(FeatureCommand::Pause).await;
    let outcome = scene.steer(of.task, TaskCommand::Cancel).await;
    assert!(
        matches!(&outcome, CommandOutcome::Refused(why) if why.contains("`feature resume f` has a worker find out")),
        "{outcome:?}"
    );
}

/// Nobody works on a cancelled feature, so nobody will find out whether the push arrived.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_push_of_a_cancelled_feature_can_be_cancelled() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, TWO, &FeatureOptions::default()).await;
    let [a, _] = scene.tasks[..] else { panic!() };
    scene.done(&scene.claim().await).await;
    let of = scene.claim().await;
    decide(&scene, &of).await;
    scene.feature(FeatureCommand::Cancel).await;
    let outcome = scene.steer(a, TaskCommand::Cancel).await;
    assert!(
        matches!(outcome, CommandOutcome::Refused(_)),
        "the push is under way: {outcome:?}"
    );
    scene
        .pool
        .report(vec![scene.pool.integration(&of, failed())])
        .await;
    assert_eq!(scene.steer(a, TaskCommand::Cancel).await, CommandOutcome::Done(1));
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebase_reported_after_its_turn_was_lost_is_repeated() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, TWO, &options).await;
    let [a, b] = scene.tasks[..] else { panic!() };
    for _step in ["work", "verify"] {
        for of in [scene.claim().await, scene.claim().await] {
            scene.done(&of).await;
        }
    }
    let of = scene.claim().await;
    assert!(Pool::is_integration(&of));
    let other = if of.task == a { b } else { a };
    // The worker is silent until its lease ends; meanwhile the other integration goes first.
    sqlx::query("update dispatches set lease_until = '-infinity' where id = $1")
        .bind(of.dispatch.0)
        .execute(&world.db)
        .await
        .unwrap();
    sqlx::query("update tasks set conflicts = 2 where id = $1")
        .bind(other.0)
        .execute(&world.db)
        .await
        .unwrap();
    let lost = rescue::rescue(&world.db, world.settings.lease_ms(), true)
        .await
        .unwrap();
    assert_eq!(lost.0, 1);
    let rewritten = IntegrationEnd::Rewritten {
        commit: format!("{:040x}", 5),
        commit_ref: "refs/heads/rebased".to_owned(),
    };
    scene
        .pool
        .report(vec![scene.pool.integration(&of, rewritten)])
        .await;
    assert_eq!(integration(&world, of.task).await, "waiting");
    // Everything lands, one turn at a time.
    for _ in 0..20 {
        scene.no_pauses().await;
        match scene.pool.claim(1).await.pop() {
            Some(next) => scene.done(&next).await,
            None => break,
        }
        scene.holds().await;
    }
    scene.ends(RunOutcome::Complete).await;
}

const PARTS: &str = "- {key: t, title: T}\n- {key: p, title: P, after: [t]}\n- {key: c, title: C, parent: p}\n\
                     - {key: d, title: D, parent: p}";

#[tokio::test(flavor = "multi_thread")]
async fn children_wait_again_for_their_parents_reverted_blocker() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, PARTS, &FeatureOptions::default()).await;
    let [t, p, c, d] = scene.tasks[..] else { panic!() };
    for _ in 0..2 {
        // T, then C: work and landing.
        scene.done(&scene.claim().await).await;
        let lands = scene.claim().await;
        assert!(Pool::is_integration(&lands), "{}", lands.task);
        scene.done(&lands).await;
    }
    let landed = if scene.state(c).await == TaskState::Done {
        c
    } else {
        d
    };
    let open = if landed == c { d } else { c };
    let options = RevertRequest {
        redo: true,
        dependents: true,
    };
    let templates = &world.settings.templates;
    let (operated, _) = operations::revert(&world.db, templates, t, TaskId::new(), options, None, "test")
        .await
        .unwrap();
    assert!(matches!(operated, Operated::Accepted(_)), "{operated:?}");
    for _ in 0..2 {
        let of = scene.claim().await;
        assert!(
            matches!(of.work, Work::Git(_)),
            "{} begins before everything is reverted",
            of.task
        );
        scene.done(&of).await;
        scene.holds().await;
    }
    let ready = scene.pool.claim(4).await;
    assert_eq!(
        ready.iter().map(|of| of.task).collect::<Vec<_>>(),
        [t],
        "its dependents wait"
    );
    scene.done(&ready[0]).await;
    scene.done(&scene.claim().await).await;
    scene.holds().await;
    let freed: BTreeSet<_> = scene.pool.claim(4).await.iter().map(|of| of.task).collect();
    assert_eq!(freed, BTreeSet::from([landed, open]));
    assert_ne!(scene.state(p).await, TaskState::Done);
}

const THREE: &str = "- {key: s, title: S}\n- {key: t, title: T}\n- {key: x, title: X}";

/// A task that conflicted twice in a row waits outside of the queue for others like it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_while_a_task_waits_for_other_conflicting_ones() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, THREE, &FeatureOptions::default()).await;
    let [s, t, x] = scene.tasks[..] else { panic!() };
    // X waits for a person's review; nobody works on it.
    for query in [
        "update tasks set state = 'needs_review' where id = $1",
        "delete from ready_tasks where task_id = $1",
        "update features set pending = pending - 1, needs_review = needs_review + 1 where $1::uuid is not null",
    ] {
        sqlx::query(query).bind(x.0).execute(&world.db).await.unwrap();
    }
    sqlx::query("update tasks set conflicts = 2 where id = any($1)")
        .bind([s.0, t.0])
        .execute(&world.db)
        .await
        .unwrap();
    sqlx::query("delete from ready_tasks where task_id = $1")
        .bind(t.0)
        .execute(&world.db)
        .await
        .unwrap();
    let (outcome, _) = dependencies::change(&world.db, s, &BTreeSet::from([x]), Change::Add, "test".into())
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    let running: bool = sqlx::query_scalar("select state = 'running' from features")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(running);
    let (_, _) = ralph_coordinator::flow::finish::tick(&world.db).await.unwrap();
    assert_eq!(scene.claim().await.task, t);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_conflicting_task_are_searched_for_conflict_markers() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, TWO, &FeatureOptions::default()).await;
    let [a, b] = scene.tasks[..] else { panic!() };
    scene.steer(b, TaskCommand::Skip).await;
    scene.done(&scene.claim().await).await;
    let of = scene.claim().await;
    assert!(of.task == a && Pool::is_integration(&of));
    let conflict = IntegrationEnd::Conflict {
        paths: vec!["a".to_owned()],
        hunks: String::new(),
        others: Vec::new(),
        head: format!("{:040x}", 1),
        source: None,
        source_ref: None,
    };
    scene
        .pool
        .report(vec![scene.pool.integration(&of, conflict)])
        .await;
    scene.no_pauses().await;
    let again = scene.claim().await;
    assert!(again.task == a && !Pool::is_integration(&again));
    let text = "<task-graph>- {key: x, title: X}\n- {key: y, title: Y, parent: x}</task-graph>";
    let split = scene.pool.session(&again, turn(), text, 1);
    scene.pool.report(vec![split]).await;
    // A child of a child starts from the attempt's tree.
    scene.done(&scene.claim().await).await;
    let lands = scene.claim().await;
    let Work::Integrate(order) = &lands.work else {
        panic!("{:?}", lands.work)
    };
    assert!(order.after_conflict, "{order:?}");
}

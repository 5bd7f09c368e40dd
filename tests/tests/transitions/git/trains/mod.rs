//! Attempts that wait to land, and checks of them ahead of their turn.

mod batches;
mod people;

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::workers::rescue;
use ralph_coordinator::store::view::{self, CarStatus};
use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{
    Assignment, DecideAnswer, DecideRequest, Finished, Gated, IntegrateOrder, IntegrationEnd, Work,
};
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::Scene;

const GATE: &str = "make test";

fn options(landing: Landing) -> FeatureOptions {
    FeatureOptions {
        max_parallel: 300,
        run: RunSettings {
            gate: vec![GATE.to_owned()],
            gate_may_fail: true,
            backoff_ms: 0,
            landing,
            ..FeatureOptions::default().run
        },
        ..FeatureOptions::default()
    }
}

fn graph(n: usize) -> String {
    let lines = (0..n).map(|n| format!("- {{key: t{n}, title: T{n}}}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A feature of `n` tasks whose work is done, in the order of its tasks.
async fn worked<'a>(world: &'a World, n: usize, options: &FeatureOptions) -> Scene<'a> {
    let scene = Scene::set(world, &graph(n), options).await;
    let mut work = scene.pool.claim(n).await;
    assert_eq!(work.len(), n);
    work.sort_by_key(|of| scene.tasks.iter().position(|task| *task == of.task));
    for of in &work {
        scene.done(of).await;
    }
    scene
}

fn order(of: &Assignment) -> &IntegrateOrder {
    match &of.work {
        Work::Integrate(order) => order,
        other => panic!("{other:?}"),
    }
}

/// The tasks that land before a checked one.
fn ahead(of: &Assignment) -> Vec<TaskId> {
    let ahead = order(of).ahead.as_ref().expect("it is no check");
    ahead.iter().map(|one| one.task).collect()
}

/// Claims the turn, if there is one, and the checks in the order of the train.
async fn given(scene: &Scene<'_>) -> (Option<Assignment>, Vec<Assignment>) {
    let (mut turns, mut checks): (Vec<_>, Vec<_>) = scene
        .pool
        .claim(300)
        .await
        .into_iter()
        .partition(|of| of.kind == SessionKind::Integrate);
    assert!(turns.len() <= 1 && checks.iter().all(Pool::is_check));
    checks.sort_by_key(|of| ahead(of).len());
    scene.holds().await;
    (turns.pop(), checks)
}

fn tree(n: usize) -> String {
    format!("{n:040x}")
}

async fn report(scene: &Scene<'_>, of: &Assignment, end: IntegrationEnd, gated: Option<Gated>) {
    let mut incoming = scene.pool.integration(of, end);
    if let Finished::Integration(report) = &mut incoming.report.finished {
        report.gated = gated;
    }
    scene.pool.report(vec![incoming]).await;
    scene.holds().await;
}

async fn passes(scene: &Scene<'_>, of: &Assignment, tree: String, before: Vec<String>) {
    let gated = Gated {
        tree,
        ahead: before,
        failures: 0,
    };
    report(scene, of, IntegrationEnd::Checked, Some(gated)).await;
}

async fn fails(scene: &Scene<'_>, of: &Assignment, tree: String) {
    let end = IntegrationEnd::GateFailed {
        command: GATE.to_owned(),
        output: format!("{} broke it", of.task),
    };
    let gated = Gated {
        tree,
        ahead: Vec::new(),
        failures: 1,
    };
    report(scene, of, end, Some(gated)).await;
}

/// Decides and pushes the landing, onto the last landed commit.
async fn lands(scene: &Scene<'_>, of: &Assignment) {
    let landed: Option<String> = sqlx::query_scalar(
        "select landed_commit from integrations where feature_id = $1 and state = 'merged' order by ended_at desc limit 1",
    )
    .bind(scene.feature.0)
    .fetch_optional(&scene.world.db)
    .await
    .unwrap()
    .flatten();
    lands_on(scene, of, landed.unwrap_or_else(|| "0".repeat(40))).await;
}

async fn lands_on(scene: &Scene<'_>, of: &Assignment, old: String) {
    let request = DecideRequest {
        dispatch: of.dispatch,
        incarnation: scene.pool.incarnation,
        old,
        new: format!("{:040x}", of.dispatch.0.as_u128() >> 8),
    };
    let answer = ralph_coordinator::flow::integrate::decide(&scene.world.db, &request)
        .await
        .unwrap();
    assert_eq!(answer, DecideAnswer::Decided);
    scene.done(of).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_shows_its_train_while_every_car_has_a_session() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let (turn, checks) = given(&scene).await;
    assert_eq!((turn.is_some(), checks.len()), (true, 2));
    let mut conn = world.db.acquire().await.unwrap();
    let progress = view::progress(&mut conn, scene.feature, 60_000).await.unwrap();
    let train = progress.unwrap().train.expect("three attempts wait to land");
    let cars: Vec<CarStatus> = train.cars.iter().map(|car| car.status).collect();
    assert_eq!(
        cars,
        [CarStatus::Landing, CarStatus::Checking, CarStatus::Checking]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_attempt_is_checked_on_top_of_those_before_it() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let [a, b, c] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    let turn = turn.unwrap();
    assert_eq!((turn.task, order(&turn).ahead.is_none()), (a, true));
    assert_eq!((checks[0].task, ahead(&checks[0])), (b, vec![a]));
    assert_eq!((checks[1].task, ahead(&checks[1])), (c, vec![a, b]));
    assert_eq!(checks[1].attempt, 1, "a check is no attempt");
    // The last check ends first, and waits for the others.
    passes(&scene, &checks[1], tree(3), vec![]).await;
    scene.nothing_is_ready().await;
    passes(&scene, &checks[0], tree(2), vec![]).await;
    scene.nothing_is_ready().await;
    lands(&scene, &turn).await;
    for task in [b, c] {
        let (turn, checks) = given(&scene).await;
        let turn = turn.unwrap();
        assert_eq!((turn.task, checks.len()), (task, 0), "nothing is checked twice");
        let known = order(&turn).passed.iter().map(|known| known.tree.clone());
        let known: Vec<String> = known.collect();
        assert!(known.contains(&tree(2)) && known.contains(&tree(3)), "{known:?}");
        lands(&scene, &turn).await;
    }
    scene.ends(RunOutcome::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_leaves_the_train_and_later_ones_are_rebuilt() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 4, &options(Landing::Each)).await;
    let [a, b, c, d] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    let turn = turn.unwrap();
    fails(&scene, &checks[0], tree(2)).await;
    // Checks behind it are ended: they would test a tree that never comes to be.
    let end = scene.pool.end_ordered(&checks[1]).await;
    assert!(end.is_some(), "{end:?}");
    let (none, again) = given(&scene).await;
    assert!(none.is_none());
    assert_eq!((again[0].task, ahead(&again[0])), (c, vec![a]));
    assert_eq!((again[1].task, ahead(&again[1])), (d, vec![a, c]));
    assert_eq!(
        scene.state(b).await,
        TaskState::InProgress,
        "the failed attempt waits for its turn"
    );
    lands(&scene, &turn).await;
    let (turn, none) = given(&scene).await;
    let turn = turn.unwrap();
    assert_eq!((turn.task, none.len()), (b, 0));
    let failed = order(&turn).failed.as_ref().unwrap();
    assert_eq!(
        (failed.tree.clone(), failed.output.clone()),
        (tree(2), format!("{b} broke it"))
    );
    fails(&scene, &turn, tree(2)).await;
    assert_eq!(scene.state(b).await, TaskState::Pending, "its next attempt");
    // The others pass as they were checked.
    passes(&scene, &again[0], tree(3), vec![]).await;
    passes(&scene, &again[1], tree(4), vec![]).await;
    let next = scene.claim().await;
    assert_eq!((next.task, next.kind), (c, SessionKind::Integrate));
    lands(&scene, &next).await;
    scene.holds().await;
}

/// Two that pass alone and fail together: the second leaves, whichever report arrives first.
#[tokio::test(flavor = "multi_thread")]
async fn the_later_of_two_attempts_that_fail_together_leaves() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let [a, b, c] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    let (turn, of_b, of_c) = (turn.unwrap(), &checks[0], &checks[1]);
    assert_eq!((turn.task, of_b.task, of_c.task), (a, b, c));
    fails(&scene, of_c, tree(3)).await;
    passes(&scene, of_b, tree(2), vec![]).await;
    lands(&scene, &turn).await;
    let next = scene.claim().await;
    assert_eq!(next.task, b);
    lands(&scene, &next).await;
    let last = scene.claim().await;
    assert_eq!(last.task, c);
    fails(&scene, &last, tree(3)).await;
    assert_eq!(scene.state(b).await, TaskState::Done);
    assert_eq!(scene.state(c).await, TaskState::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_attempt_waits_for_the_end_of_those_before_it() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let [a, b, c] = scene.tasks[..] else { panic!() };
    let (turn, checks) = given(&scene).await;
    let turn = turn.unwrap();
    let conflict = IntegrationEnd::Conflict {
        paths: vec!["x".to_owned()],
        hunks: String::new(),
        head: tree(9),
        others: Vec::new(),
        source: None,
        source_ref: None,
    };
    report(&scene, &checks[0], conflict, None).await;
    assert_eq!(scene.state(b).await, TaskState::InProgress);
    let (_, again) = given(&scene).await;
    assert_eq!((again[0].task, ahead(&again[0])), (c, vec![a]));
    // The attempt before it leaves, so the conflicting one gets its turn on the plain branch.
    fails(&scene, &turn, tree(1)).await;
    let next = scene.claim().await;
    assert_eq!((next.task, next.kind), (b, SessionKind::Integrate));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_is_given_up_after_three_deaths_of_its_worker() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 2, &options(Landing::Each)).await;
    let (turn, mut checks) = given(&scene).await;
    for n in 1..=3 {
        let check = checks.pop().unwrap();
        sqlx::query("update dispatches set lease_until = now() + case when id = $1 then -1 else 1 end * interval '1 hour'")
            .bind(check.dispatch.0)
            .execute(&world.db)
            .await
            .unwrap();
        let (lost, _) = rescue::rescue(&world.db, 1_000, false).await.unwrap();
        assert_eq!(lost, 1);
        scene.holds().await;
        let (none, again) = given(&scene).await;
        assert!(none.is_none());
        assert_eq!(again.len(), usize::from(n < 3), "after {n} deaths");
        checks = again;
    }
    lands(&scene, &turn.unwrap()).await;
    let next = scene.claim().await;
    assert_eq!((next.task, next.kind), (scene.tasks[1], SessionKind::Integrate));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_before_checks() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(4), &options(Landing::Each)).await;
    for of in scene.pool.claim(3).await {
        scene.done(&of).await;
    }
    let kinds: Vec<SessionKind> = scene.pool.claim(3).await.iter().map(|of| of.kind).collect();
    assert_eq!(
        kinds,
        [SessionKind::Integrate, SessionKind::Work, SessionKind::Check]
    );
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_landing_checks_nothing_ahead() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Serial)).await;
    for task in scene.tasks.clone() {
        let (turn, checks) = given(&scene).await;
        let turn = turn.unwrap();
        assert_eq!((turn.task, checks.len()), (task, 0));
        lands(&scene, &turn).await;
    }
    scene.ends(RunOutcome::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_train_of_two_hundred_checks_eight_at_a_time() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 200, &options(Landing::Each)).await;
    for n in 0..5 {
        let (turn, checks) = given(&scene).await;
        assert_eq!(checks.len(), 8);
        for check in checks {
            passes(&scene, &check, tree(1_000 + ahead(&check).len() + n), vec![]).await;
        }
        lands(&scene, &turn.unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_passes_and_fails_on_one_tree_is_reported_as_flaky() {
    let world = World::calm().await.unwrap();
    let scene = worked(&world, 3, &options(Landing::Each)).await;
    let (_, checks) = given(&scene).await;
    fails(&scene, &checks[0], tree(2)).await;
    let flaky = async || {
        let mut conn = world.db.acquire().await.unwrap();
        let feature = ralph_coordinator::store::view::features(&mut conn, &[scene.feature.0])
            .await
            .unwrap();
        let gate = feature[0].gate.clone().unwrap();
        (gate.flaky_trees, gate.to_string())
    };
    assert_eq!(flaky().await.0, 0, "the gate only failed so far");
    let (_, again) = given(&scene).await;
    passes(&scene, &again[0], tree(2), vec![]).await;
    let (trees, words) = flaky().await;
    assert_eq!(trees, 1);
    assert!(
        words.starts_with("flaky: it passed and failed on 1 tree"),
        "{words}"
    );
}

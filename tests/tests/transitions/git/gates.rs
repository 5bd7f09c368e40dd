//! The check of the gate on the base commit: it holds back landings, and it recognizes failures of the
//! environment.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_coordinator::flow::control::{CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::{claim, finish};
use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Assignment, ClaimAnswer, IntegrationEnd};
use ralph_tests::harness::{FeatureOptions, Repository, World};

use crate::pool::Pool;
use crate::scene::Scene;

const GATE: &str = "make test";
const THREE: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}";

fn settings() -> RunSettings {
    RunSettings {
        gate: vec![GATE.to_owned()],
        backoff_ms: 0,
        ..FeatureOptions::default().run
    }
}

fn options() -> FeatureOptions {
    FeatureOptions {
        run: settings(),
        ..FeatureOptions::default()
    }
}

/// A scene whose worker joins before its feature starts.
async fn set<'a>(world: &'a World, graph: &str, options: &FeatureOptions) -> Scene<'a> {
    Pool::join(world).await;
    Scene::set(world, graph, options).await
}

async fn refused(scene: &Scene<'_>, of: &Assignment, output: &str) {
    let end = IntegrationEnd::GateFailed {
        command: GATE.to_owned(),
        output: output.to_owned(),
    };
    scene.pool.report(vec![scene.pool.integration(of, end)]).await;
    scene.holds().await;
}

/// Claims the gate's check on the base, and the sessions beside it.
async fn begun(scene: &Scene<'_>) -> (Assignment, Vec<Assignment>) {
    let (mut checks, sessions): (Vec<_>, Vec<_>) =
        scene.pool.claim(8).await.into_iter().partition(Pool::is_check);
    assert_eq!(checks.len(), 1);
    (checks.remove(0), sessions)
}

async fn integration(scene: &Scene<'_>) -> Assignment {
    let of = scene.claim().await;
    assert_eq!(of.kind, SessionKind::Integrate);
    of
}

async fn failures(scene: &Scene<'_>) -> Vec<i16> {
    sqlx::query_scalar("select failures from tasks where feature_id = $1 and role = 'work' order by id")
        .bind(scene.feature.0)
        .fetch_all(&scene.world.db)
        .await
        .unwrap()
}

async fn reason(scene: &Scene<'_>) -> String {
    sqlx::query_scalar("select r.reason from features f join runs r on r.id = f.current_run where f.id = $1")
        .bind(scene.feature.0)
        .fetch_one(&scene.world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_lands_before_the_gate_passes_on_the_base() {
    let world = World::calm().await.unwrap();
    let one = FeatureOptions {
        max_parallel: 1,
        ..options()
    };
    let scene = set(&world, "- {key: a, title: A}", &one).await;
    // The check needs no slot beside the one session that may run.
    let (check, sessions) = begun(&scene).await;
    scene.done(&sessions[0]).await;
    scene.nothing_is_ready().await;
    scene.holds().await;
    scene.done(&check).await;
    let of = integration(&scene).await;
    scene.done(&of).await;
    scene.ends(RunOutcome::Complete).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_fails_on_the_base_blocks_the_run_and_costs_no_attempt() {
    let world = World::calm().await.unwrap();
    let unattended = FeatureOptions {
        run: RunSettings {
            review: false,
            ..settings()
        },
        ..options()
    };
    let scene = set(
        &world,
        "- {key: a, title: A}\n- {key: b, title: B, after: [a]}",
        &unattended,
    )
    .await;
    let (check, sessions) = begun(&scene).await;
    refused(&scene, &check, "no tool").await;
    scene.done(&sessions[0]).await;
    scene.nothing_is_ready().await;
    scene.ends(RunOutcome::Blocked).await;
    assert!(
        reason(&scene)
            .await
            .starts_with("the gate fails on the base commit "),
        "{}",
        reason(&scene).await
    );
    assert_eq!(failures(&scene).await, [0, 0]);
    scene.holds().await;

    // A new run by a person tries the gate again; so does a retry of the check during a run.
    let again = FeatureCommand::Run(Box::new(settings()));
    scene.feature(again).await;
    let check = scene.claim().await;
    refused(&scene, &check, "no tool").await;
    scene.ends(RunOutcome::Blocked).await;
    assert_eq!(
        scene.steer(check.task, TaskCommand::Retry).await,
        CommandOutcome::Done(1)
    );
    scene.feature(FeatureCommand::Run(Box::new(settings()))).await;
    let check = scene.claim().await;
    assert!(Pool::is_check(&check));
    scene.done(&check).await;
    let of = integration(&scene).await;
    scene.done(&of).await;
    let of = scene.claim().await;
    assert_eq!(of.kind, SessionKind::Work);
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_may_fail_on_the_base_still_judges_work() {
    let world = World::calm().await.unwrap();
    let scene = set(&world, "- {key: a, title: A}", &options()).await;
    let (check, sessions) = begun(&scene).await;
    scene.done(&sessions[0]).await;
    refused(&scene, &check, "no tool").await;
    scene.ends(RunOutcome::Blocked).await;
    let may_fail = RunSettings {
        gate_may_fail: true,
        ..settings()
    };
    scene.feature(FeatureCommand::Run(Box::new(may_fail))).await;
    assert_eq!(scene.state(check.task).await, TaskState::Skipped);
    let of = integration(&scene).await;
    refused(&scene, &of, "no tool").await;
    assert_eq!(failures(&scene).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_gate_replaces_the_one_that_fails() {
    let world = World::calm().await.unwrap();
    let scene = set(&world, "- {key: a, title: A}", &options()).await;
    let (check, sessions) = begun(&scene).await;
    scene.done(&sessions[0]).await;
    refused(&scene, &check, "no tool").await;
    let other = RunSettings {
        gate: vec!["make check".to_owned()],
        ..settings()
    };
    scene.feature(FeatureCommand::Run(Box::new(other))).await;
    assert_eq!(scene.state(check.task).await, TaskState::Cancelled);
    let (other, _) = begun(&scene).await;
    assert_ne!(other.task, check.task);
    scene.done(&other).await;
    let of = integration(&scene).await;
    scene.done(&of).await;
    scene.ends(RunOutcome::Complete).await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_an_earlier_release_gets_no_check() {
    let world = World::calm().await.unwrap();
    let scene = set(&world, "- {key: a, title: A}", &options()).await;
    let mut claims = scene.pool.requests(&[["default"]; 4]);
    for claim in &mut claims {
        claim.checks = false;
    }
    let answers = claim::claim(&world.db, &world.settings, &claims).await.unwrap();
    let kinds: Vec<SessionKind> = answers
        .iter()
        .filter_map(|answer| match answer {
            ClaimAnswer::Assigned { assignment } => Some(assignment.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [SessionKind::Work]);
    scene.no_pauses().await;
    let check = scene.claim().await;
    assert!(Pool::is_check(&check));
}

/// Completes three tasks whose gate fails in the same way; returns the check that follows.
async fn failed_the_same_way(scene: &Scene<'_>) -> Assignment {
    let (check, sessions) = begun(scene).await;
    scene.done(&check).await;
    for one in &sessions {
        scene.done(one).await;
    }
    for n in 0..3 {
        // The refused task is worked on again beside the integrations.
        let mut claimed = scene.pool.claim(8).await;
        let at = claimed.iter().position(Pool::is_integration).unwrap();
        let output = format!("/tmp/{n}/x: tool: not found after {n}.5s");
        refused(scene, &claimed.remove(at), &output).await;
    }
    let (check, _) = begun(scene).await;
    check
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_shared_by_three_tasks_and_the_base_counts_for_none() {
    let world = World::calm().await.unwrap();
    let scene = set(&world, THREE, &options()).await;
    let check = failed_the_same_way(&scene).await;
    // Two failures were counted, and those tasks are worked on again.
    assert_eq!(failures(&scene).await.iter().sum::<i16>(), 2);
    refused(&scene, &check, "tool: not found").await;
    assert_eq!(failures(&scene).await, [0, 0, 0]);
    let why: String = sqlx::query_scalar("select reason from task_texts where task_id = $1")
        .bind(check.task.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(why.contains("the gate failed the same way on 3 tasks: "), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_shared_by_three_tasks_counts_if_the_base_passes() {
    let world = World::calm().await.unwrap();
    let scene = set(&world, THREE, &options()).await;
    let check = failed_the_same_way(&scene).await;
    scene.done(&check).await;
    let of = integration(&scene).await;
    refused(&scene, &of, "/tmp/9/x: tool: not found after 9.5s").await;
    assert_eq!(failures(&scene).await, [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_work_of_idle_tasks_waits_to_land_again() {
    let world = World::calm().await.unwrap();
    let once = FeatureOptions {
        max_retries: 0,
        ..options()
    };
    let scene = set(&world, THREE, &once).await;
    let check = failed_the_same_way(&scene).await;
    refused(&scene, &check, "tool: not found").await;
    scene.ends(RunOutcome::Blocked).await;
    for task in &scene.tasks {
        assert_eq!(scene.state(*task).await, TaskState::InProgress);
    }
    scene.feature(FeatureCommand::Run(Box::new(settings()))).await;
    let check = scene.claim().await;
    scene.done(&check).await;
    for _ in 0..3 {
        let of = integration(&scene).await;
        scene.done(&of).await;
    }
    scene.ends(RunOutcome::Complete).await;
    assert_eq!(failures(&scene).await, [0, 0, 0]);
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn features_with_the_same_base_and_gate_share_a_pass() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let submit = async |name| {
        let graph = "- {key: a, title: A}";
        world
            .submit(name, Some(&repository), graph, &options())
            .await
            .unwrap()
            .0
    };
    let check = async |feature: FeatureId| -> Option<TaskState> {
        sqlx::query_scalar(
            "select (select t.state from tasks t where t.id = f.check_task) from features f where f.id = $1",
        )
        .bind(feature.0)
        .fetch_one(&world.db)
        .await
        .unwrap()
    };
    let pool = Pool::join(&world).await;
    submit("f").await;
    let of = pool.claim(1).await.pop().unwrap();
    assert!(Pool::is_check(&of));
    let beside = submit("g").await;
    assert_eq!(check(beside).await, Some(TaskState::Pending));
    pool.report(vec![pool.integration(&of, IntegrationEnd::Checked)])
        .await;
    // No worker had begun the second feature's check.
    finish::tick(&world.db).await.unwrap();
    assert_eq!(check(beside).await, Some(TaskState::Done));
    assert_eq!(check(submit("h").await).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_slot_works_first_then_checks_the_gate_then_lands() {
    let world = World::calm().await.unwrap();
    // No worker serves the pool yet.
    let scene = Scene::set(&world, "- {key: a, title: A}\n- {key: b, title: B}", &options()).await;
    let of = scene.claim().await;
    assert_eq!(of.kind, SessionKind::Work);
    scene.done(&of).await;
    let check = scene.claim().await;
    assert!(Pool::is_check(&check));
    scene.done(&check).await;
    integration(&scene).await;
}

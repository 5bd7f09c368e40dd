//! Several attempts on their way onto one branch, while workers and coordinators die, people push, and
//! gates fail.

use std::os::unix::fs::PermissionsExt as _;

use futures::future::join_all;
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::domain::train::Landing;
use ralph_tests::harness::{Fault, FeatureOptions, WorkerOptions, World};
use ralph_worker::faults::POINTS;

use super::scene::{Scene, folder, label};

/// Independent tasks, each with a file of its own.
pub fn tasks(n: usize) -> String {
    let task = |n: usize| {
        format!(
            "- key: t{n}\n  title: Write {n}\n  description: |\n    @write f{n}.txt {n}\n    @effect t{n}\n    @done\n"
        )
    };
    (0..n).map(task).collect()
}

pub fn gated(gate: &str, landing: Landing) -> FeatureOptions {
    let options = FeatureOptions::default();
    FeatureOptions {
        max_parallel: 8,
        run: RunSettings {
            gate: vec![gate.to_owned()],
            gate_may_fail: true,
            landing,
            ..options.run.clone()
        },
        ..options
    }
}

pub async fn checks(scene: &Scene<'_>) -> i64 {
    sqlx::query_scalar("select count(*) from dispatches where feature_id = $1 and kind = 'check'")
        .bind(scene.feature.0)
        .fetch_one(&scene.world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_train_lands_with_its_checks_and_nothing_is_checked_twice() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    for landing in [Landing::Each, Landing::Batch] {
        let name = landing.into_str().to_owned();
        let options = WorkerOptions::named(&name).slots(6).pool(&name);
        let _worker = world.worker(&options).unwrap();
        let scene = Scene::submit_with(&world, &name, &tasks(6), gated("sleep 1", landing)).await;
        scene.completes().await;
        assert!(checks(&scene).await > 0, "{name}");
    }
}

async fn killed_at(world: &World, point: &str, nth: u32) {
    let name = format!("{}-{nth}", label(point));
    let fault = Fault::new(&format!("{point}:kill:{nth}"), &folder(world, &name).join("once"));
    let options = |n: u32| {
        WorkerOptions::named(&format!("{name}-{n}"))
            .slots(3)
            .pool(&name)
            .fault(&fault)
    };
    let other = world.worker(&options(1)).unwrap();
    let one = world.worker(&options(2)).unwrap();
    let scene = Scene::submit_with(world, &name, &tasks(3), gated("sleep 1", Landing::Each)).await;
    let mut both = vec![one, other];
    scene.wait_for_any_kill(&mut both).await;
    scene.completes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_with_three_cars_under_way_loses_none() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    // The second passage belongs to a check about half of the time.
    let points = POINTS.iter().filter(|point| point.starts_with("integrate."));
    for point in points {
        let nth = if matches!(*point, "integrate.after_rebase" | "integrate.after_gate") {
            2
        } else {
            1
        };
        killed_at(&world, point, nth).await;
    }
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_killed_with_three_cars_under_way_loses_none() {
    for point in [
        "report.before_commit",
        "report.after_commit",
        "decide.before_commit",
        "decide.after_commit",
    ] {
        let world = World::start().await.unwrap();
        let name = label(point);
        // Three work sessions report before the first check.
        let nth = if point.starts_with("report") { 4 } else { 1 };
        let fault = Fault::new(
            &format!("{point}:kill:{nth}"),
            &folder(&world, &name).join("once"),
        );
        let mut first = world.coordinator_process("c", Some(&fault)).unwrap();
        let _worker = world
            .worker(&WorkerOptions::named(&name).slots(3).pool(&name))
            .unwrap();
        let scene = Scene::submit_with(&world, &name, &tasks(3), gated("sleep 1", Landing::Each)).await;
        scene.wait_for_kill(&mut first).await;
        let _second = world.coordinator_process("d", None).unwrap();
        scene.completes().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cars_build_on_a_commit_that_a_person_pushes_meanwhile() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let name = "pushed";
    let _worker = world
        .worker(&WorkerOptions::named(name).slots(5).pool(name))
        .unwrap();
    let scene = Scene::submit_with(&world, name, &tasks(5), gated("sleep 1", Landing::Each)).await;
    scene
        .until("select count(*) > 0 from integrations where feature_id = $1 and state = 'merged'")
        .await;
    let repository = scene.repository.clone().unwrap();
    // A landing may come between the person's fetch and push.
    let pushed = tokio::task::spawn_blocking(move || {
        (0..50).find_map(|_| repository.commit("ralph/pushed", "person.txt", "p\n").ok())
    });
    let pushed = pushed.await.unwrap().expect("a successful push");
    scene.ends(RunOutcome::Complete).await;
    let repository = scene.repository.as_ref().unwrap();
    let landed = repository.landed("ralph/pushed").unwrap();
    assert_eq!(landed.len(), 5, "{landed:?}");
    repository
        .git(&["merge-base", "--is-ancestor", &pushed, "refs/heads/ralph/pushed"])
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_tasks_that_pass_alone_and_fail_together_lands() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let name = "together";
    let _worker = world
        .worker(&WorkerOptions::named(name).slots(4).pool(name))
        .unwrap();
    let gate = "sleep 1; ! (test -f f0.txt && test -f f1.txt)";
    let options = FeatureOptions {
        max_retries: 0,
        ..gated(gate, Landing::Each)
    };
    let scene = Scene::submit_with(&world, name, &tasks(4), options).await;
    scene.ends(RunOutcome::Blocked).await;
    let states: Vec<String> =
        sqlx::query_scalar("select state::text from tasks where feature_id = $1 order by state")
            .bind(scene.feature.0)
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(
        states.iter().filter(|state| *state == "done").count(),
        3,
        "{states:?}"
    );
    assert!(states.contains(&"needs_review".to_owned()), "{states:?}");
    // The task that was queued first has landed.
    let (first, last): (uuid::Uuid, uuid::Uuid) = sqlx::query_as(
        "select (array_agg(i.task_id order by i.queued_at) filter (where i.state = 'merged' and x.key in ('t0', 't1')))[1],
                (array_agg(i.task_id order by i.queued_at) filter (where x.key in ('t0', 't1')))[1]
         from integrations i join task_texts x on x.task_id = i.task_id where i.feature_id = $1",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert_eq!(first, last);
}

/// The server refuses one push, as branch protection does.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_one_push_gets_the_other_four_landings() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let name = "refused";
    let scene = Scene::submit_with(&world, name, &tasks(5), gated("sleep 1", Landing::Each)).await;
    let path = scene.repository.as_ref().unwrap().path().to_owned();
    let hook = path.join("hooks/pre-receive");
    let text = format!(
        "#!/bin/sh\nwhile read old new ref; do\n  case $ref in refs/heads/ralph/*)\n    echo x >> {0}/pushes\n    \
         if [ $(wc -l < {0}/pushes) = 3 ]; then echo 'protected branch' >&2; exit 1; fi;;\n  esac\ndone\n",
        path.display()
    );
    std::fs::create_dir_all(path.join("hooks")).unwrap();
    std::fs::write(&hook, text).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let _worker = world
        .worker(&WorkerOptions::named(name).slots(5).pool(name))
        .unwrap();
    scene.ends(RunOutcome::Blocked).await;
    let reasons: Vec<String> = sqlx::query_scalar(
        "select x.reason from tasks t join task_texts x on x.task_id = t.id where t.feature_id = $1 and t.state = 'needs_review'",
    )
    .bind(scene.feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert!(
        reasons.len() == 1 && reasons[0].contains("protected branch"),
        "{reasons:?}"
    );
    let landed = scene
        .repository
        .as_ref()
        .unwrap()
        .landed("ralph/refused")
        .unwrap();
    assert_eq!(landed.len(), 4, "{landed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn features_side_by_side_have_separate_trains() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let run = async |name: &'static str, landing| {
        let _worker = world
            .worker(&WorkerOptions::named(name).slots(3).pool(name))
            .unwrap();
        let scene = Scene::submit_with(&world, name, &tasks(4), gated("sleep 1", landing)).await;
        scene.completes().await;
    };
    join_all([
        run("one", Landing::Each),
        run("two", Landing::Batch),
        run("three", Landing::Serial),
    ])
    .await;
}

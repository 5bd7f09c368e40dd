//! Cars whose gate does harm, and servers that die with three cars under way.

use std::time::Duration;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::Settings;
use ralph_git_server::{GitServer, Login};
use ralph_shared::wire::GateStep;
use ralph_tests::harness::{FeatureOptions, Repository, WorkerOptions, World};

use super::faults::git_server::with_login;
use super::scene::Scene;
use super::trains::{checks, gated, tasks};

/// Time limit of a gate that hangs.
const TIMEOUT_MS: u64 = 3_000;

/// Runs a gate that does `harm` once the second task's file exists: that task leaves the train with these
/// words as its reason, and the others land.
async fn check_car_leaves(world: &World, worker: WorkerOptions, harm: &str, expected: &[&str]) {
    let name = worker.name.clone();
    let _worker = world.worker(&worker.pool(&name)).unwrap();
    let mut options = FeatureOptions {
        max_retries: 0,
        ..gated(&format!("test ! -e f1.txt || {{ {harm}; }}"), Landing::Each)
    };
    if harm.starts_with("sleep") {
        options.run.gate_steps = vec![GateStep {
            timeout_ms: Some(TIMEOUT_MS),
            ..GateStep::default()
        }];
    }
    let scene = Scene::submit_with(world, &name, &tasks(3), options).await;
    scene.ends(RunOutcome::Blocked).await;
    let reasons: Vec<(String, String)> = sqlx::query_as(
        "select x.key, coalesce(x.reason, '') from tasks t join task_texts x on x.task_id = t.id
         where t.feature_id = $1 and t.state <> 'done'",
    )
    .bind(scene.feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    let [(key, reason)] = &reasons[..] else {
        panic!("{reasons:?}")
    };
    assert_eq!(key, "t1");
    assert!(reason.len() < 64 << 10, "{} bytes", reason.len());
    assert!(expected.iter().all(|words| reason.contains(words)), "{reason}");
    let landed = scene
        .repository
        .as_ref()
        .unwrap()
        .landed(&format!("ralph/{name}"));
    assert_eq!(landed.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_car_whose_gate_hangs_is_ended_and_leaves() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let expected = &["was ended after 3 s"];
    check_car_leaves(
        &world,
        WorkerOptions::named("hangs").slots(4),
        "sleep 3600",
        expected,
    )
    .await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_car_whose_gate_floods_its_output_leaves_with_the_end_of_it() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let harm = "yes flooded | head -c 20000000; echo the end; exit 1";
    check_car_leaves(
        &world,
        WorkerOptions::named("floods").slots(4),
        harm,
        &["flooded", "the end"],
    )
    .await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_car_whose_gate_writes_a_file_that_is_too_large_leaves() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    std::fs::write(
        world.dir().join(".ralph.toml"),
        "[workspace]\nsession_file_mb = 1\n",
    )
    .unwrap();
    let harm = "dd if=/dev/zero of=large bs=1M count=4";
    check_car_leaves(
        &world,
        WorkerOptions::named("large").slots(4),
        harm,
        &["[exit status"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_car_whose_gate_fills_the_disk_is_ended_and_leaves() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can create a disk for a test");
        return;
    }
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let config = "[workspace]\nsession_disk_reserve_mb = 32\n";
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    let worker = WorkerOptions {
        disk_mib: Some(256),
        ..WorkerOptions::named("fills").slots(3)
    };
    // The gate would keep the disk full for longer than a test may take.
    let harm = "cat /dev/zero > full; sleep 3600";
    check_car_leaves(&world, worker, harm, &["filled the worker's disk"]).await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_car_whose_gate_kills_its_worker_leaves_and_the_others_land() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let name = "killer";
    let pid = world.dir().join("pid");
    // A sandboxed gate can't reach its worker.
    let options = WorkerOptions {
        env: [("RALPH_SANDBOX".to_owned(), "none".to_owned())].into(),
        ..WorkerOptions::named(name).slots(3).pool(name)
    };
    let harm = format!("test ! -e f1.txt || kill -9 $(cat {})", pid.display());
    let gate = gated(&harm, Landing::Each);
    let scene = Scene::submit_with(&world, name, &tasks(3), gate).await;
    let mut deaths = 0;
    loop {
        let mut worker = world.worker(&options).unwrap();
        std::fs::write(&pid, worker.pid().to_string()).unwrap();
        tokio::select! {
            () = scene.ends(RunOutcome::Blocked) => break,
            _ = worker.wait() => deaths += 1,
        }
        assert!(deaths < 30, "the gate runs again and again");
    }
    let reason: String = sqlx::query_scalar(
        "select x.reason from tasks t join task_texts x on x.task_id = t.id where t.feature_id = $1 and t.state <> 'done'",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert!(reason.contains("its worker died"), "{reason}");
}

/// Submits tasks whose gates wait for a file, and waits until three cars are under way.
async fn three_under_way<'a>(world: &'a World, name: &str) -> Scene<'a> {
    let scene = Scene::submit_with(world, name, &tasks(4), waiting(world, name)).await;
    scene.until(THREE).await;
    scene
}

const THREE: &str = "select count(*) >= 3 from dispatches
    where feature_id = $1 and kind in ('integrate', 'check') and state = 'live'";

fn waiting(world: &World, name: &str) -> FeatureOptions {
    let gate = format!("until test -e {}; do sleep 0.1; done", world.gate(name).display());
    gated(&gate, Landing::Each)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_with_three_cars_under_way_costs_time_only() {
    let settings = Settings {
        heartbeat: Duration::from_millis(200),
        lease: Duration::from_secs(10),
        grace: Duration::from_millis(300),
        ..Settings::default()
    };
    let mut world = World::start_with(settings).await.unwrap();
    world.coordinator().await.unwrap();
    for (name, wiped) in [("kept", false), ("wiped", true)] {
        let _worker = world
            .worker(&WorkerOptions::named(name).slots(4).pool(name))
            .unwrap();
        let scene = three_under_way(&world, name).await;
        world.kill_nats(wiped).await.unwrap();
        std::fs::write(world.gate(name), "").unwrap();
        scene.completes().await;
    }
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_git_server_lost_with_three_cars_under_way_costs_no_attempt() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let mut server = GitServer::start(world.dir(), Login::new("ann", "s3cret"))
        .await
        .unwrap();
    let repository = repository.served_at(server.url("origin.git"));
    let _worker = world.worker(&with_login(world.dir()).slots(4)).unwrap();
    let options = waiting(&world, "away");
    let submitted = world.submit("away", Some(&repository), &tasks(4), &options).await;
    let (feature, run, _) = submitted.unwrap();
    world.until(THREE, feature.0).await.unwrap();
    server.go_away().await;
    std::fs::write(world.gate("away"), "").unwrap();
    let missed = "select count(*) > 0 from dispatches
        where feature_id = $1 and kind = 'integrate' and state = 'settled' and outcome is distinct from 'merged'";
    world.until(missed, feature.0).await.unwrap();
    server.come_back().await.unwrap();
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    let checked = world
        .check_complete(feature, Some((&repository, "ralph/away")))
        .await;
    checked.unwrap();
    let attempts: Vec<i32> = sqlx::query_scalar("select attempt from tasks where feature_id = $1")
        .bind(feature.0)
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(attempts, [1; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_coordinators_plan_one_train_as_one_does() {
    let mut world = World::start().await.unwrap();
    for _ in 0..2 {
        world.coordinator().await.unwrap();
    }
    for landing in [Landing::Each, Landing::Batch] {
        let name = landing.into_str();
        let workers = ["one", "other"].map(|of| {
            let options = WorkerOptions::named(&format!("{name}-{of}")).slots(4).pool(name);
            world.worker(&options).unwrap()
        });
        let scene = Scene::submit_with(&world, name, &tasks(8), gated("sleep 1", landing)).await;
        scene.completes().await;
        assert!(checks(&scene).await > 0, "{name}");
        drop(workers);
    }
    world.check_processes().await.unwrap();
}

//! SIGSTOP of a worker past its lease, then SIGCONT: another worker has done the work meanwhile, and nothing
//! happens twice.

use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use nix::sys::signal::Signal;
use ralph_coordinator::flow::Settings;
use ralph_tests::harness::{Fault, WorkerOptions, World};

use crate::scene::{PAIR, Scene, folder, label};

/// No dispatch waits for a late report any more, and late reports changed nothing.
const ALL_REPORTED: &str = "select count(*) filter (where state in ('live', 'lost')) = 0
                                 and count(*) filter (where state = 'superseded' and duration_ms is not null) > 0
                            from dispatches where feature_id = $1";

async fn stopped_at(world: &World, point: &str) {
    let name = label(point);
    let fault = Fault::new(&format!("{point}:stop"), &folder(world, &name).join("once"));
    let start = |n: u32| {
        world.worker(
            &WorkerOptions::named(&format!("{name}-{n}"))
                .slots(2)
                .pool(&name)
                .fault(&fault),
        )
    };
    let mut workers = [start(1).unwrap(), start(2).unwrap()];
    let scene = Scene::submit(world, &name, PAIR).await;
    let stopped = scene.wait_for_any_halt(&mut workers).await;
    scene.completes().await;
    let head = scene.head();
    workers[stopped].signal(Signal::SIGCONT);
    scene.until(ALL_REPORTED).await;
    scene.check().await;
    assert_eq!(scene.head(), head, "{point}: the branch moved afterwards");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_stopped_while_it_integrates_does_not_land_twice() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let points = [
        "integrate.after_rebase",
        "integrate.before_decide",
        "integrate.after_decide",
        "integrate.before_push",
        "integrate.after_push",
    ];
    join_all(points.map(|point| stopped_at(&world, point))).await;
    world.check_processes().await.unwrap();
}

fn waits_in_its_first_attempt(gate: &Path) -> String {
    let gate = gate.display();
    format!(
        r"
- key: slow
  title: Take long
  description: |
    @effect begun
    @write slow.txt slow
    @on-attempt 1 @wait-for {gate}
    @effect slow
    @done
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_is_fenced_when_it_wakes_and_its_work_is_kept() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("slow");
    let pool = |name: &str| WorkerOptions::named(name).pool("slow");
    let sleeper = world.worker(&pool("sleeper")).unwrap();
    let scene = Scene::submit(&world, "slow", &waits_in_its_first_attempt(&gate)).await;
    world.effects_of("begun", 1).await.unwrap();
    sleeper.signal(Signal::SIGSTOP);
    let _other = world.worker(&pool("other")).unwrap();
    scene.completes().await;
    std::fs::write(&gate, "").unwrap();
    sleeper.signal(Signal::SIGCONT);
    scene.until(ALL_REPORTED).await;
    scene.check().await;
    let pushed = "select bool_and(pushed_ref is not null) from dispatches where feature_id = $1 and state = 'superseded'";
    scene.until(pushed).await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_workers_name_is_taken_over_and_its_session_ends() {
    let settings = Settings {
        heartbeat: Duration::from_millis(200),
        lease: Duration::from_secs(3),
        dark_limit: Duration::from_secs(1),
        grace: Duration::from_millis(300),
        ..Settings::default()
    };
    let mut world = World::start_with(settings).await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("never");
    let twin = |data: &str| WorkerOptions {
        data: Some(data.to_owned()),
        ..WorkerOptions::named("twin").pool("slow")
    };
    let first = world.worker(&twin("first")).unwrap();
    let scene = Scene::submit(&world, "slow", &waits_in_its_first_attempt(&gate)).await;
    world.effects_of("begun", 1).await.unwrap();
    first.signal(Signal::SIGSTOP);
    let second = world.worker(&twin("second")).unwrap();
    scene.completes().await;
    assert!(
        second.output().contains("at work from another data folder"),
        "it should have waited for the lease:\n{}",
        second.output()
    );
    assert!(
        !world.session_processes().is_empty(),
        "the first worker's agent still waits"
    );
    first.signal(Signal::SIGCONT);
    world.check_processes().await.unwrap();
    scene.check().await;
}
